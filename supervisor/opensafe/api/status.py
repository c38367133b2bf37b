"""The one table from errors to gRPC status, and the interceptor that applies it.

The status carries google.rpc.ErrorInfo (domain `opensafe`, reason as errors.py has it, value, limit and remedy as
metadata). What is not in the table is INTERNAL with a fixed text: its cause is for the log, not for the client.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import grpc
import structlog
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2  # type: ignore[import-untyped]  # ships no types
from grpc_status import rpc_status

from opensafe import errors

DOMAIN: Final = "opensafe"

#: Most derived first: the first match counts.
TABLE: Final[tuple[tuple[type[errors.OpenSafeError], int], ...]] = (
    (errors.InvalidArgument, code_pb2.INVALID_ARGUMENT),
    (errors.UnknownTool, code_pb2.INVALID_ARGUMENT),
    (errors.UnknownUser, code_pb2.INVALID_ARGUMENT),
    (errors.NotFound, code_pb2.NOT_FOUND),
    (errors.SandboxPaused, code_pb2.FAILED_PRECONDITION),
    (errors.Conflict, code_pb2.ALREADY_EXISTS),
    (errors.LimitExceeded, code_pb2.RESOURCE_EXHAUSTED),
    (errors.NotPermitted, code_pb2.PERMISSION_DENIED),
    (errors.RequestError, code_pb2.INVALID_ARGUMENT),
    (errors.ReviewPending, code_pb2.FAILED_PRECONDITION),
    (errors.FileNotFound, code_pb2.NOT_FOUND),
    (errors.FileExists, code_pb2.ALREADY_EXISTS),
    (errors.FileOutside, code_pb2.PERMISSION_DENIED),
    (errors.FileDenied, code_pb2.PERMISSION_DENIED),
    (errors.FileTooLarge, code_pb2.RESOURCE_EXHAUSTED),
    (errors.NoSpace, code_pb2.RESOURCE_EXHAUSTED),
    (errors.ContentMismatch, code_pb2.INVALID_ARGUMENT),
    (errors.BadArchive, code_pb2.INVALID_ARGUMENT),
    (errors.FileFailed, code_pb2.ABORTED),
    (errors.FileError, code_pb2.FAILED_PRECONDITION),
    (errors.Unavailable, code_pb2.UNAVAILABLE),
    (errors.SandboxLost, code_pb2.ABORTED),
    (errors.SandboxError, code_pb2.UNAVAILABLE),
    (errors.WardenRefused, code_pb2.PERMISSION_DENIED),
    (errors.PolicyError, code_pb2.PERMISSION_DENIED),
    (errors.AuditError, code_pb2.UNAVAILABLE),
)
UNKNOWN_TEXT: Final = "internal error; the daemon's log has its cause"

_log = structlog.get_logger()


def to_status(error: BaseException) -> status_pb2.Status:
    """The status of `error`, as google.rpc.Status."""
    if isinstance(error, errors.OpenSafeError):
        for kind, code in TABLE:
            if isinstance(error, kind):
                info = error_details_pb2.ErrorInfo(
                    reason=error.reason,
                    domain=DOMAIN,
                    metadata={
                        "message": error.message,
                        "value": error.value,
                        "limit": error.limit,
                        "remedy": error.remedy,
                    },
                )
                detail = any_pb2.Any()
                detail.Pack(info)
                return status_pb2.Status(code=code, message=str(error), details=[detail])
    return status_pb2.Status(code=code_pb2.INTERNAL, message=UNKNOWN_TEXT)


class ErrorInterceptor(grpc.aio.ServerInterceptor):
    """Turns what a handler raises into a status, and lets no client stop a unary handler half way.

    A client that goes away cancels its handler; a change of state that was cut there would be neither done nor
    undone. So unary handlers run as tasks of ours: `settle` waits for them at the end.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def settle(self) -> None:
        """Wait for the handlers whose clients are gone."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:  # noqa: ANN401 - a handler of whatever messages
        """Wrap the handler by its arity."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        codec = (handler.request_deserializer, handler.response_serializer)
        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(_unary(self._whole(handler.unary_unary)), *codec)
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(_stream(handler.unary_stream), *codec)
        if handler.stream_unary:
            return grpc.stream_unary_rpc_method_handler(_unary(self._whole(handler.stream_unary)), *codec)
        return grpc.stream_stream_rpc_method_handler(_stream(handler.stream_stream), *codec)

    def _whole(self, handler: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
        async def work(request: Any, context: Any) -> Any:  # noqa: ANN401 - as the wrapped handler
            return await handler(request, context)

        async def handle(request: Any, context: Any) -> Any:  # noqa: ANN401 - as the wrapped handler
            task = asyncio.create_task(work(request, context))
            self._tasks.add(task)
            task.add_done_callback(self._ended)
            return await asyncio.shield(task)

        return handle

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # read: where the client is gone, nobody else does


def _unary(handler: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
    async def handle(request: Any, context: Any) -> Any:  # noqa: ANN401 - as the wrapped handler
        try:
            return await handler(request, context)
        except Exception as error:  # noqa: BLE001 - the boundary: everything becomes a status
            await _abort(context, error)

    return handle


def _stream(handler: Callable[[Any, Any], AsyncIterator[Any]]) -> Callable[[Any, Any], Any]:
    async def handle(request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: ANN401 - as the wrapped handler
        try:
            async for response in handler(request, context):
                yield response
        except Exception as error:  # noqa: BLE001 - the boundary: everything becomes a status
            await _abort(context, error)

    return handle


async def _abort(context: Any, error: Exception) -> None:  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    if isinstance(error, grpc.aio.AbortError):
        raise error
    status = to_status(error)
    if status.code == code_pb2.INTERNAL:
        _log.error("a handler failed", exc_info=error)
    await context.abort_with_status(rpc_status.to_status(status))
