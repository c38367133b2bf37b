"""The HTTP server that Prometheus scrapes: one path, one small answer, and nothing that a peer can make grow.

On a unix socket for a group of the host, or on loopback, where every local user may ask. At most 16 connections, one
answered at a time; a request is a head of 8 KiB at most, and it and its answer pass within ten seconds. A request has
no body and a connection no second request.
"""

import asyncio
import os
import pathlib
import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

import structlog

from opensafe.errors import StartError

SOCKET_NAME: Final = "metrics.sock"
PATH: Final = "/metrics"

_CONNECTIONS: Final = 16
_HEAD_BYTES: Final = 8192
_DEADLINE_S: Final = 10.0
_TEXT: Final = "text/plain; charset=utf-8"

_log = structlog.get_logger()


def bind(where: str, directory: pathlib.Path) -> socket.socket:
    """A listening place: `unix` for metrics.sock in `directory`, else ADDRESS:PORT. Raises StartError."""
    try:
        if where == "unix":
            return _bind_unix(directory / SOCKET_NAME)
        host, _, port = where.rpartition(":")
        family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # of the life before
            listener.bind((host.strip("[]"), int(port)))
        except OSError:
            listener.close()
            raise
        return listener
    except OSError as error:
        raise StartError(
            f"metrics can't be served: {error.strerror or error}",
            value=where,
            remedy="Set telemetry.metrics to a port that is free, to unix, or to nothing.",
        ) from error


def _bind_unix(path: pathlib.Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o117)
    try:
        listener.bind(os.fspath(path))
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener


class Endpoint:
    """Serves what `text` returns. Owns the listening socket and a task a connection; `close` ends them."""

    def __init__(self, listener: socket.socket, text: Callable[[], Awaitable[bytes]], content_type: str) -> None:
        self._listener = listener
        self._text = text
        self._content_type = content_type
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        self._closed = False

    async def start(self) -> None:
        """Serve."""
        self._server = await asyncio.start_server(
            self._accept, sock=self._listener, limit=_HEAD_BYTES, backlog=_CONNECTIONS
        )

    async def close(self) -> None:
        """End, and cut what is under way."""
        if self._server is None:
            self._listener.close()
            return
        self._server.close()
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._closed or len(self._tasks) >= _CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer), name="scrape")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(0)  # drained is then: handed to the kernel
        try:
            async with asyncio.timeout(_DEADLINE_S):
                try:
                    head = await reader.readuntil(b"\r\n\r\n")
                except asyncio.LimitOverrunError:
                    response = _response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, b"", _TEXT)
                else:
                    async with self._turn:
                        response = _response(*await self._answer(head), self._content_type)
                writer.write(response)
                await writer.drain()
        except (OSError, EOFError, TimeoutError):
            pass  # the peer went away, or is too slow
        finally:
            writer.transport.abort()

    async def _answer(self, head: bytes) -> tuple[HTTPStatus, bytes]:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return HTTPStatus.BAD_REQUEST, b""
        if words[0] != b"GET":
            return HTTPStatus.METHOD_NOT_ALLOWED, b""
        if words[1].split(b"?", 1)[0] != PATH.encode():
            return HTTPStatus.NOT_FOUND, b""
        try:
            return HTTPStatus.OK, await self._text()
        except Exception:  # noqa: BLE001 - whoever scrapes learns of it, and no call does
            _log.exception("metrics could not be told")
            return HTTPStatus.INTERNAL_SERVER_ERROR, b""


def _response(status: HTTPStatus, body: bytes, content_type: str) -> bytes:
    if status is not HTTPStatus.OK:
        body, content_type = f"{status.phrase}\n".encode(), _TEXT
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\n"
    allow = "Allow: GET\r\n" if status is HTTPStatus.METHOD_NOT_ALLOWED else ""
    return f"{head}{allow}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
