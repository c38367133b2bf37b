"""From a failed RPC to the exception of `opensafe.errors` that the daemon meant.

The daemon sends google.rpc.ErrorInfo in `grpc-status-details-bin`: domain "opensafe", the reason as in errors.py, the
error's texts as metadata. A failure without one is the connection's or gRPC's own; asking the socket tells them apart.
"""

import contextlib
import errno
import os
import pathlib
import socket
from collections.abc import Awaitable, Iterator
from typing import Final, TypeVar

import grpc
import msgspec
from google.rpc import error_details_pb2  # type: ignore[import-untyped] # its package ships no types
from grpc_status import rpc_status

from opensafe.errors import (
    Conflict,
    Denied,
    InvalidArgument,
    LimitExceeded,
    NotFound,
    NotPermitted,
    OpenSafeError,
    Unavailable,
)
from opensafe.model.decision import RuleHit

DOMAIN: Final = "opensafe"

Answer = TypeVar("Answer")
Stream = TypeVar("Stream", bound=grpc.aio.RpcContext)

#: What gRPC itself can answer before the daemon's code is reached.
_PLAIN: Final[dict[grpc.StatusCode, type[OpenSafeError]]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: Conflict,
    grpc.StatusCode.FAILED_PRECONDITION: Conflict,
    grpc.StatusCode.PERMISSION_DENIED: NotPermitted,
    grpc.StatusCode.UNAUTHENTICATED: NotPermitted,
    grpc.StatusCode.RESOURCE_EXHAUSTED: LimitExceeded,
    grpc.StatusCode.DEADLINE_EXCEEDED: Unavailable,
}
_ADVICE: Final = {
    errno.ENOENT: "is not there. Start the daemon with `opensafe up`, or name another socket with OPENSAFE_SOCKET",
    errno.ECONNREFUSED: "has no daemon behind it. Start it with `opensafe up`",
    errno.EACCES: "may not be used by this user. Join the principal's group, or use another principal's socket",
}


def _tree(root: type[OpenSafeError]) -> Iterator[type[OpenSafeError]]:
    yield root
    for child in root.__subclasses__():
        yield from _tree(child)


_BY_REASON: Final = {kind.reason: kind for kind in _tree(OpenSafeError) if "reason" in vars(kind)}


def translate(error: grpc.aio.AioRpcError, path: pathlib.Path) -> OpenSafeError:
    """The exception to raise for `error`, which came from the connection to `path`."""
    info = _error_info(error)
    if info is not None:
        kind = _BY_REASON.get(info.reason, OpenSafeError)
        told = info.metadata
        message = told.get("message") or error.details() or info.reason
        texts = {name: told.get(name, "") for name in ("value", "limit", "remedy")}
        if issubclass(kind, Denied):
            return kind(message, **texts, rules=_rules(told), outcome=told.get("outcome", "blocked"))
        return kind(message, **texts)
    details = error.details() or error.code().name
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        return _unreachable(path, details)
    if error.code() is grpc.StatusCode.CANCELLED:  # not by us: that is an asyncio.CancelledError
        return Unavailable("the daemon broke the request off", value=path, remedy="Repeat it, with the same call_id.")
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return OpenSafeError(
            "the daemon does not offer this", value=details, remedy="Client and daemon must be of the same version."
        )
    return _PLAIN.get(error.code(), OpenSafeError)(f"gRPC {error.code().name}: {details}")


async def ask(call: Awaitable[Answer], path: pathlib.Path) -> Answer:
    """The answer to `call`, which goes over the connection to `path`. Raises what `translate` makes of a failure."""
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise translate(error, path) from error


@contextlib.contextmanager
def stream(call: Stream, path: pathlib.Path) -> Iterator[Stream]:
    """`call`, to iterate over; a failure within is raised as by `ask`, and however it is left, the call ends."""
    try:
        yield call
    except grpc.aio.AioRpcError as error:
        raise translate(error, path) from error
    finally:
        call.cancel()


class _Info(msgspec.Struct, frozen=True):
    reason: str
    metadata: dict[str, str]


def _error_info(error: grpc.aio.AioRpcError) -> _Info | None:
    try:
        status = rpc_status.from_call(error)  # type: ignore[arg-type] # it has the three accessors that are read
    except ValueError:  # the details contradict the status: not ours
        return None
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.domain == DOMAIN:
            return _Info(info.reason, dict(info.metadata))
    return None


def _rules(told: dict[str, str]) -> tuple[RuleHit, ...]:
    try:
        return msgspec.json.decode(told.get("rules", "[]"), type=tuple[RuleHit, ...])
    except msgspec.MsgspecError:  # of another version: the message names them all the same
        return ()


def _unreachable(path: pathlib.Path, details: str) -> Unavailable:
    """Say what is wrong with the socket, by trying it: gRPC's own words name neither the errno nor the remedy."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # a full backlog answers EAGAIN at once
        try:
            probe.connect(os.fsencode(path))
        except OSError as error:
            advice = _ADVICE.get(error.errno or 0, f"can't be connected to: {error.strerror}")
            return Unavailable(f"the socket {path} {advice}")
    return Unavailable(
        f"the daemon at {path} ended the connection", value=details, remedy="Repeat with the same call_id."
    )
