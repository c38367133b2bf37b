"""Every method of every service by its path, with what holds for all of them: an error becomes a status.

What the generated code registers services with, in the server's place. Its own way, `add_registered_method_handlers`,
has gRPC's Python server wait for each of our forty methods separately and look at all of those waits with each request.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import grpc
import structlog
from google.protobuf.message import DecodeError
from google.rpc import code_pb2  # type: ignore[import-untyped]  # ships no types
from grpc_status import rpc_status

from opensafe.errors import InvalidArgument

from .status import to_status

_log = structlog.get_logger()

_Unary = Callable[[Any, Any], Awaitable[Any]]
_Stream = Callable[[Any, Any], AsyncIterator[Any]]
Answered = Callable[[str, str, float], None]
"""Told of each request that was answered: the method's full name, the status code's name, and the seconds it took."""

#: How much of a decoder's own words is passed on.
_WHY_MAX: Final = 200
_OK: Final = "OK"
_CANCELLED: Final = "CANCELLED"


def gone(context: Any) -> asyncio.Event:  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    """Set when nobody waits for the answer any more."""
    event = asyncio.Event()
    context.add_done_callback(lambda _: event.set())
    return event


class Handlers(grpc.GenericRpcHandler):
    """One server's methods. Turns what they raise into a status, and lets no client stop a unary one half way.

    A client that goes away cancels its handler; a change of state that was cut there would be neither done nor
    undone. So unary handlers run as tasks of ours: `settle` waits for them at the end.
    """

    def __init__(self, answered: Answered) -> None:
        self._answered = answered
        self._methods: Final[dict[str, Any]] = {}
        self._tasks: set[asyncio.Future[Any]] = set()

    def add_generic_rpc_handlers(self, handlers: Sequence[object]) -> None:
        """Called by generated code with what it gives the next one, too."""

    def add_registered_method_handlers(self, service: str, methods: Mapping[str, Any]) -> None:
        """Called by generated code for each service."""
        for name, handler in methods.items():
            self._methods[f"/{service}/{name}"] = self._guarded(f"{service}/{name}", handler)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:  # noqa: ANN401 - a handler of whatever messages
        """The method that a request names, or None."""
        return self._methods.get(handler_call_details.method)

    async def settle(self) -> None:
        """Wait for the handlers whose clients are gone."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _guarded(self, name: str, handler: Any) -> Any:  # noqa: ANN401 - as grpc makes them
        codec = (_reader(handler.request_deserializer), handler.response_serializer)
        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(self._unary(name, handler.unary_unary), *codec)
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(self._stream(name, handler.unary_stream), *codec)
        if handler.stream_unary:
            return grpc.stream_unary_rpc_method_handler(self._unary(name, handler.stream_unary), *codec)
        return grpc.stream_stream_rpc_method_handler(self._stream(name, handler.stream_stream), *codec)

    def _unary(self, name: str, handler: _Unary) -> _Unary:
        async def handle(request: Any, context: Any) -> Any:  # noqa: ANN401 - as the handler
            async with self._answering(name, context):
                task = asyncio.ensure_future(handler(_readable(request), context))
                self._tasks.add(task)
                task.add_done_callback(self._ended)
                return await asyncio.shield(task)

        return handle

    def _stream(self, name: str, handler: _Stream) -> _Stream:
        async def handle(request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: ANN401 - as the handler
            async with self._answering(name, context):
                async for response in handler(_readable(request), context):
                    yield response

        return handle

    @contextlib.asynccontextmanager
    async def _answering(self, name: str, context: Any) -> AsyncIterator[None]:  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
        """Around a handler: its error becomes a status, and its end is told."""
        begun, code = time.perf_counter(), _CANCELLED
        try:
            yield
            code = _OK
        except grpc.aio.AbortError:  # a service of gRPC's own has set it
            code = context.code().name
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: everything becomes a status
            status = to_status(error)
            code = code_pb2.Code.Name(status.code)
            if status.code == code_pb2.INTERNAL:
                _log.error("a handler failed", exc_info=error)
            await context.abort_with_status(rpc_status.to_status(status))
        finally:
            self._answered(name, code, time.perf_counter() - begun)

    def _ended(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # read: where the client is gone, nobody else does


def _reader(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """What is no such message becomes an error of ours in its place: gRPC makes a failure of the server's own of it."""

    def read(data: bytes) -> Any:  # noqa: ANN401 - a request of whatever message
        try:
            return deserialize(data)
        except DecodeError as error:
            return InvalidArgument(
                f"the request can't be read: {error}"[:_WHY_MAX],
                value=f"{len(data)} bytes",
                remedy="Send the message that the method has in its .proto file.",
            )

    return read


def _readable(request: Any) -> Any:  # noqa: ANN401 - a request, or the requests of a stream
    """The same where it could be read. Raises InvalidArgument."""
    if isinstance(request, InvalidArgument):
        raise request
    return _each_readable(request) if isinstance(request, AsyncIterator) else request


async def _each_readable(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        yield _readable(request)
