"""A server behind a URL, over the SDK's own transport with the bounds that it lacks: it reads plain answers whole."""

import contextlib
from collections.abc import AsyncIterator, Mapping

import anyio
import httpx2
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from .proxy_framing import Bounds, Ending, Flooded, Rate, Streams


class Remote(msgspec.Struct, frozen=True, kw_only=True):
    """A server behind a URL (streamable HTTP), which the proxy reaches by itself. headers: sent with every request."""

    url: str
    headers: Mapping[str, str] = {}

    @contextlib.asynccontextmanager
    async def connect(self, bounds: Bounds, ending: Ending) -> AsyncIterator[Streams]:
        """Connect; the first request does so."""
        http = httpx2.AsyncClient(
            transport=_BoundedTransport(bounds.message_bytes),
            headers={**self.headers, "accept-encoding": "identity"},
            timeout=httpx2.Timeout(bounds.start_s, read=bounds.call_s),
        )
        transport = streamable_http_client(self.url, http_client=http, max_sse_event_size=bounds.message_bytes)
        async with http, transport as (source, sink), _metered(source, bounds.messages_per_s, ending) as metered:
            yield metered, sink  # type: ignore[misc] # the SDK's stream for sending does what is needed of ours


class _BoundedTransport(httpx2.AsyncHTTPTransport):
    """HTTP whose answers are as large as they look and no larger than a message; the SDK reads them whole."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        encoding = response.headers.get("content-encoding", "identity").lower()
        stream = response.stream
        if encoding != "identity" or not isinstance(stream, httpx2.AsyncByteStream):
            await response.aclose()
            raise httpx2.StreamError(f"an answer that is encoded ({encoding}), which was not asked for")
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _BoundedStream(stream, self._most)
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, most: int) -> None:
        self._inner, self._most = inner, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        async for piece in self._inner:
            seen += len(piece)
            if seen > self._most:
                raise httpx2.StreamError(f"an answer of more than {self._most} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


Receiving = MemoryObjectReceiveStream[SessionMessage | Exception]


@contextlib.asynccontextmanager
async def _metered(source: object, per_s: int, ending: Ending) -> AsyncIterator[Receiving]:
    """`source`, at no more than the rate; beyond it, its end."""
    send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    async def relay() -> None:
        rate = Rate(per_s)
        async with send:
            try:
                async for message in source:  # type: ignore[attr-defined] # a protocol of the SDK that it does not export
                    rate.take()
                    await send.send(message)
                ending.set("it closed the connection")
            except Flooded as flood:
                ending.set(str(flood), hostile=True)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(relay)
        try:
            yield receive
        finally:
            tasks.cancel_scope.cancel()
            receive.close()
