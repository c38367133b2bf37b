"""One connection to one principal's socket, and how to ask over it. What can be asked stands in files by subject."""

import os
import pathlib
import urllib.parse
from types import TracebackType
from typing import Any, Final, Self

import grpc

from opensafe._proto.v1 import (
    agent_pb2_grpc,
    audit_pb2_grpc,
    egress_pb2_grpc,
    exec_pb2_grpc,
    policy_pb2_grpc,
    review_pb2_grpc,
    sandbox_pb2_grpc,
    session_pb2_grpc,
)
from opensafe.errors import InvalidArgument

from ._calls import Link
from ._discovery import MAX_PATH_BYTES
from ._failures import Answer, ask

#: Largest message accepted from the daemon, in bytes: a record holds its call's arguments, which may be 4 MiB.
MAX_MESSAGE: Final = 16 << 20

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class Connection:
    """The channel with a stub for each service. Use it as an asynchronous context manager, in one event loop."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    @classmethod
    def connect(cls, socket_path: str | pathlib.Path) -> Self:
        """A client of the daemon behind `socket_path`. The connection is made by the first request.

        Raises InvalidArgument for a path that no socket can have.
        """
        path = pathlib.Path(socket_path).absolute()
        if len(os.fsencode(path)) > MAX_PATH_BYTES:
            raise InvalidArgument("the socket's path is too long", value=path, limit=f"{MAX_PATH_BYTES} bytes")
        return cls(path)

    async def __aenter__(self) -> Self:
        address = urllib.parse.quote(os.fsencode(self._path))  # gRPC reads it as part of a URI
        self._channel = grpc.aio.insecure_channel(f"unix:{address}", options=_OPTIONS)
        self._sessions = session_pb2_grpc.SessionServiceStub(self._channel)
        self._sandboxes = sandbox_pb2_grpc.SandboxServiceStub(self._channel)
        self._exec = exec_pb2_grpc.ExecServiceStub(self._channel)
        self._link = Link(self._channel, self._exec, self._path)
        self._policy = policy_pb2_grpc.PolicyServiceStub(self._channel)
        self._reviews = review_pb2_grpc.ReviewServiceStub(self._channel)
        self._agents = agent_pb2_grpc.AgentServiceStub(self._channel)
        self._audit = audit_pb2_grpc.AuditServiceStub(self._channel)
        self._egress = egress_pb2_grpc.EgressServiceStub(self._channel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close()

    async def health(self) -> bool:
        """Whether the daemon serves, by the standard gRPC health check."""
        from grpc_health.v1 import health_pb2, health_pb2_grpc

        stub: Any = health_pb2_grpc.HealthStub(self._channel)  # Check is not in its type stubs
        answer = await self._ask(stub.Check(health_pb2.HealthCheckRequest()))
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    async def _ask(self, call: grpc.aio.UnaryUnaryCall[Any, Answer] | grpc.aio.StreamUnaryCall[Any, Answer]) -> Answer:
        return await ask(call, self._path)
