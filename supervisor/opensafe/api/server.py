"""One gRPC server a principal, on a unix socket in the principal's own directory.

Who may connect is decided by the directory's group and the socket's mode, both in place before the socket exists:
the warden made the directory (service user, principal's group, mode 2750), and the umask at bind makes it 0660.
"""

import os
import pathlib
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, cast

import grpc
import msgspec
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc
from grpc_reflection.v1alpha._async import ReflectionServicer

from opensafe._proto.v1 import (
    agent_pb2,
    agent_pb2_grpc,
    audit_pb2,
    audit_pb2_grpc,
    egress_pb2,
    egress_pb2_grpc,
    exec_pb2,
    exec_pb2_grpc,
    files_pb2,
    files_pb2_grpc,
    policy_pb2,
    policy_pb2_grpc,
    review_pb2,
    review_pb2_grpc,
    sandbox_pb2,
    sandbox_pb2_grpc,
    session_pb2,
    session_pb2_grpc,
)
from opensafe.audit.log import AuditLog
from opensafe.audit.shipping import Shipping
from opensafe.control.activation import Activations
from opensafe.control.audits import Audits
from opensafe.control.bans import Bans
from opensafe.control.explanations import Explanations
from opensafe.control.judge import Judge
from opensafe.control.lookup import Lookup
from opensafe.control.permits import Permits
from opensafe.control.proofs import Proofs
from opensafe.control.reviews import Reviews
from opensafe.control.sandbox_list import SandboxList
from opensafe.control.sandboxes import Sandboxes
from opensafe.control.sessions import Sessions
from opensafe.control.shadow import Shadow
from opensafe.control.traffic import Traffic
from opensafe.desk import Desk
from opensafe.gate import Gate
from opensafe.model.calls import Principal
from opensafe.warden.client import WardenClient

from .agent_service import AgentService
from .audit_service import AuditService
from .egress_service import EgressService
from .exec_service import ExecService
from .files_service import FilesService
from .handlers import Answered, Handlers
from .policy_service import PolicyService
from .review_service import ReviewService
from .sandbox_service import SandboxService
from .session_service import SessionService

SOCKET_NAME: Final = "opensafe.sock"
BUNDLE_HEALTH: Final = "policy.bundle"
_ENVELOPE: Final = 64 * 1024
_STREAMS: Final = 1024
_HANDSHAKE_MS: Final = 5000
_SERVICES: Final = tuple(
    module.DESCRIPTOR.services_by_name[name].full_name
    for module, name in (
        (session_pb2, "SessionService"),
        (sandbox_pb2, "SandboxService"),
        (exec_pb2, "ExecService"),
        (files_pb2, "FilesService"),
        (policy_pb2, "PolicyService"),
        (review_pb2, "ReviewService"),
        (audit_pb2, "AuditService"),
        (agent_pb2, "AgentService"),
        (egress_pb2, "EgressService"),
    )
)


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """What the services are made of."""

    gate: Gate
    desk: Desk
    judge: Judge
    log: AuditLog
    sessions: Sessions
    sandboxes: Sandboxes
    sandbox_list: SandboxList
    reviews: Reviews
    bans: Bans
    permits: Permits
    explanations: Explanations
    lookup: Lookup
    proofs: Proofs
    audits: Audits
    shadow: Shadow
    activations: Activations
    shipping: Shipping
    traffic: Traffic
    warden: WardenClient


class Api:
    """All servers of the front. `start` binds, `drain` says NOT_SERVING, `stop` ends."""

    def __init__(
        self,
        services: Services,
        principals: Mapping[str, Principal],
        directory: pathlib.Path,
        arguments_bytes: int,
        *,
        keepalive_s: float,
        with_reflection: bool,
        answered: Answered,
    ) -> None:
        """keepalive_s: how long an Exec stream may be quiet. answered: counts requests."""
        self._health = HealthServicer()
        self._servers: list[grpc.aio.Server] = []
        self._handlers: list[Handlers] = []
        for name, principal in principals.items():
            server = grpc.aio.server(
                options=[
                    ("grpc.max_receive_message_length", arguments_bytes + _ENVELOPE),
                    ("grpc.max_send_message_length", -1),  # what we send is bounded where it is made
                    ("grpc.max_concurrent_streams", _STREAMS),
                    ("grpc.so_reuseport", 0),
                    ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
                ],
            )
            handlers = Handlers(answered)
            as_server = cast("grpc.aio.Server", handlers)  # all of one that generated code uses
            _add_services(as_server, services, principal, self._health, keepalive_s)
            if with_reflection:
                served = ReflectionServicer((*_SERVICES, reflection.SERVICE_NAME))
                add_reflection: Callable[..., None] = reflection_pb2_grpc.add_ServerReflectionServicer_to_server
                add_reflection(served, as_server)
            server.add_generic_rpc_handlers((handlers,))
            self._handlers.append(handlers)
            path = directory / name / SOCKET_NAME
            path.unlink(missing_ok=True)
            with _umask(0o117):
                server.add_insecure_port(f"unix:{urllib.parse.quote(str(path))}")
            self._servers.append(server)

    async def start(self) -> None:
        """Serve."""
        for server in self._servers:
            await server.start()
        await self.executes(True)

    async def in_force(self, good: bool) -> None:
        """Report whether the policy bundle in place is in force (health of the name `policy.bundle`)."""
        state = health_pb2.HealthCheckResponse
        await self._health.set(BUNDLE_HEALTH, state.SERVING if good else state.NOT_SERVING)

    async def not_serving(self) -> None:
        """Report NOT_SERVING from now on, still answering."""
        await self._health.enter_graceful_shutdown()

    async def executes(self, able: bool) -> None:
        """Report whether anything executes. Where not, NOT_SERVING, requests are still answered."""
        state = health_pb2.HealthCheckResponse
        for service in ("", *_SERVICES):
            await self._health.set(service, state.SERVING if able else state.NOT_SERVING)

    async def stop(self, grace_s: float) -> None:
        """Refuse new requests, give running ones `grace_s` seconds, end."""
        for server in self._servers:
            await server.stop(grace_s)
        for handlers in self._handlers:
            await handlers.settle()


def _add_services(
    server: grpc.aio.Server, services: Services, principal: Principal, health: HealthServicer, keepalive_s: float
) -> None:
    gate, desk, log = services.gate, services.desk, services.log
    session_pb2_grpc.add_SessionServiceServicer_to_server(SessionService(desk, services.sessions, principal), server)
    sandbox_pb2_grpc.add_SandboxServiceServicer_to_server(
        SandboxService(services.sandboxes, services.sandbox_list, principal), server
    )
    exec_pb2_grpc.add_ExecServiceServicer_to_server(ExecService(gate, principal, keepalive_s), server)
    files_pb2_grpc.add_FilesServiceServicer_to_server(FilesService(gate, principal), server)
    policy_pb2_grpc.add_PolicyServiceServicer_to_server(
        PolicyService(
            gate,
            services.permits,
            services.judge,
            services.explanations,
            services.shadow,
            services.activations,
            services.shipping,
            log,
            services.warden,
            principal,
        ),
        server,
    )
    review_pb2_grpc.add_ReviewServiceServicer_to_server(ReviewService(desk, services.reviews, principal), server)
    agent_pb2_grpc.add_AgentServiceServicer_to_server(AgentService(desk, services.bans, principal), server)
    audit_pb2_grpc.add_AuditServiceServicer_to_server(
        AuditService(services.lookup, services.proofs, services.audits, principal), server
    )
    egress_pb2_grpc.add_EgressServiceServicer_to_server(EgressService(services.traffic, principal), server)
    health_pb2_grpc.add_HealthServicer_to_server(health, server)


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
