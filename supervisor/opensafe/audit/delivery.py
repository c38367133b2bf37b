"""One checkpoint to one destination, done when this returns. What blocks is done in a thread that nothing waits for.

File systems of other machines and name servers can hang for longer than a daemon takes to stop.
"""

import asyncio
import contextlib
import os
import pathlib
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from opensafe import __version__
from opensafe.disk import replace_file
from opensafe.model.checkpoint import MAX_NOTE, NoteError, claimed
from opensafe.model.destination import Destination, File, Https, Syslog

_T = TypeVar("_T")

#: Facility security (10), severity notice (5), as syslog(3) writes it.
_PRIORITY: Final = 10 * 8 + 5
_ANSWER_MAX: Final = 4096


class DeliveryError(Exception):
    """The destination did not take it, and why."""


class Courier:
    """Delivers to one destination. ca: a file of certificates that https trusts instead of the system's."""

    def __init__(self, destination: Destination, ca: str = "") -> None:
        self._destination = destination
        self._ca = ca
        self._context: ssl.SSLContext | None = None
        self._busy = False

    async def deliver(self, note: bytes) -> None:
        """Raises DeliveryError, OSError. Cancelled, it leaves at most a thread that ends with what it waits for."""
        match self._destination:
            case File(path):
                await self._apart(lambda: _to_file(pathlib.Path(path), note))
            case Syslog(path):
                await _to_syslog(path, note)
            case Https() as server:
                await self._to_https(server, note)

    async def _to_https(self, server: Https, note: bytes) -> None:
        if self._context is None:
            self._context = await self._apart(lambda: ssl.create_default_context(cafile=self._ca or None))
        found = await self._apart(lambda: socket.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM))
        problem: OSError | None = None
        for *_, address in found:
            try:
                reader, writer = await asyncio.open_connection(
                    str(address[0]), server.port, ssl=self._context, server_hostname=server.host, limit=_ANSWER_MAX
                )
            except OSError as error:
                problem = error
                continue
            try:
                await _post(reader, writer, server, note)
            finally:
                writer.transport.abort()
            return
        raise problem or DeliveryError("the host has no address")

    async def _apart(self, work: Callable[[], _T]) -> _T:
        """Do it in a thread: one at a time, so that whatever hangs is one thread."""
        if self._busy:
            raise DeliveryError("an earlier try still hangs")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()

        def tell(settle: Callable[..., None], result: object) -> None:
            self._busy = False
            if not future.done():
                settle(result)

        def run() -> None:
            told: tuple[Callable[..., None], object]
            try:
                told = future.set_result, work()
            except (OSError, DeliveryError) as error:
                told = future.set_exception, error
            except ValueError as error:  # a name that can't be looked up, a certificate that is none
                told = future.set_exception, DeliveryError(str(error))
            with contextlib.suppress(RuntimeError):  # the loop is gone
                loop.call_soon_threadsafe(tell, *told)

        threading.Thread(target=run, name="checkpoint-delivery", daemon=True).start()
        self._busy = True
        return await future


async def _post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: Https, note: bytes) -> None:
    host = f"[{server.host}]" if ":" in server.host else server.host
    head = (
        f"POST {server.target} HTTP/1.1\r\nHost: {host}:{server.port}\r\nUser-Agent: opensafe/{__version__}\r\n"
        f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(note)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode("ascii") + note)
    await writer.drain()
    try:
        line = (await reader.readuntil(b"\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise DeliveryError("the server's answer is no HTTP") from error
    version, _, rest = line.partition(" ")
    status = rest[:3]
    if version not in ("HTTP/1.0", "HTTP/1.1") or not status.isdecimal():
        raise DeliveryError("the server's answer is no HTTP")
    if not status.startswith("2"):
        raise DeliveryError(f"the server answered {status}")


async def _to_syslog(path: str, note: bytes) -> None:
    line = msgspec.json.encode({"note": note.decode()})
    message = b"<%d>opensafe[%d]: %b" % (_PRIORITY, os.getpid(), line)
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as sender:
        await loop.sock_connect(sender, path)
        await loop.sock_sendall(sender, message)


def _to_file(path: pathlib.Path, note: bytes) -> None:
    """Replace the file, on disk when this returns; never by what is older or of another log."""
    if not _newer(path, note):
        return
    replace_file(path, note, mode=0o644)


def _newer(path: pathlib.Path, note: bytes) -> bool:
    """Whether the file has to be replaced. Raises DeliveryError where it must not be."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return True
    with os.fdopen(descriptor, "rb") as file:
        there = file.read(MAX_NOTE + 1)
    if there == note:
        return False
    try:
        old, new = claimed(there), claimed(note)
    except NoteError as error:
        raise DeliveryError(f"the file holds something else: {error}") from error
    if old.origin != new.origin:
        raise DeliveryError(f"the file holds a checkpoint of another log, {old.origin}")
    if old.size > new.size or (old.size == new.size and old.root != new.root):
        raise DeliveryError(f"the file holds a checkpoint of {old.size} records, and this log was signed at {new.size}")
    return True
