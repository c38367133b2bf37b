"""The world's one child process: every server, and the capture, in a namespace of its own.

    python -m opensafe.proof.world.servers LOCKFILE

It lives as long as its stdin is open, and its namespace and both links live as long as it does: nothing has to be
cleaned up after a parent that was killed. Only one world stands on a host at a time, since its addresses are fixed.
"""

import asyncio
import contextlib
import fcntl
import os
import pathlib
import socket
import ssl
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, SupportsIndex

from opensafe.warden import kernel

from . import control, http2, plan, postgres, proxy, site, web
from .authority import Authority
from .capture import Capturing
from .events import DATA_MAX, Event, Kind
from .names import Names

_CONNECTIONS_MAX: Final = 2048
_BACKLOG: Final = 512
#: Of one connection, what is told byte by byte; more is counted.
_TOLD_MAX: Final = 64 * 1024
_READ: Final = 64 * 1024
_IP_PKTINFO: Final = 8
_PKTINFO: Final = struct.Struct("=I4s4s")

_Handler = Callable[["Connection"], Awaitable[None]]


def tell(message: control.Told) -> None:
    """To the parent, which reads all the time; where it does not, the world stands still."""
    sys.stdout.buffer.write(control.line(message))
    sys.stdout.buffer.flush()


class _Reader(asyncio.StreamReader):
    """Tells what it is fed."""

    def __init__(self, told: Callable[[bytes], None]) -> None:
        super().__init__()
        self._told = told

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        self._told(bytes(data))
        super().feed_data(data)


class Connection:
    """One accepted TCP connection."""

    def __init__(self, accepted: socket.socket, peer: tuple[str, int]) -> None:
        # As servers do; asyncio can't tell that it is TCP.
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = accepted
        self.source = _text(peer)
        local = accepted.getsockname()
        self.port = int(local[1])
        self.target = _text(local)
        self._received = 0
        self._owned = self._secured = False
        self.reader = _Reader(self._data)
        self.writer: asyncio.StreamWriter

    def tell(self, kind: Kind, data: bytes = b"", *, name: str = "", size: int = 0) -> None:
        """Put something on record of it."""
        cut = data[:DATA_MAX]
        event = Event(
            at_us=time.time_ns() // 1000,
            kind=kind,
            source=self.source,
            target=self.target,
            name=name,
            data=cut,
            size=size or len(data),
        )
        tell(control.Seen(event))

    async def open(self, tls: ssl.SSLContext | None = None) -> None:
        """Make reader and writer. Raises OSError (ssl.SSLError) where the handshake fails."""
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(self.reader)
        self._owned, self._secured = True, tls is not None
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, self._socket, ssl=tls)
        self.writer = asyncio.StreamWriter(transport, protocol, self.reader, loop)

    def close(self) -> None:
        """End it, and say how much was read.

        A transport closes its socket itself, or the next one gets a number under which the loop has it still.
        """
        if hasattr(self, "writer") and not self.writer.is_closing():
            self.writer.close()
            if self._secured:
                self.writer.transport.abort()  # the end is told; it would wait for the client's
        elif not self._owned:
            self._socket.close()
        self.tell(Kind.CLOSED, size=self._received)

    def _data(self, data: bytes) -> None:
        if self._received < _TOLD_MAX:
            self.tell(Kind.DATA, data)
        self._received += len(data)


class Servers:
    """All of them, in the running loop."""

    def __init__(self, authority: Authority, pages: Mapping[str, bytes]) -> None:
        self._authority = authority
        self._pages = pages
        self._names = Names()
        self._tasks: set[asyncio.Task[None]] = set()

    def listen(self) -> None:
        """Bind every port of the plan. Raises OSError."""
        handlers: dict[int, _Handler] = {
            plan.DNS: self._dns,
            plan.HTTP: self._web,
            plan.BANNER: self._banner,
            plan.PROXY: self._proxy,
        }
        handlers[plan.POSTGRES] = self._postgres
        handlers |= dict.fromkeys((plan.TLS, *plan.MORE_TLS), self._tls)
        handlers |= dict.fromkeys(plan.SINKS, self._sink)
        for port, handler in handlers.items():
            for family in (socket.AF_INET, *_six()):
                self._keep(self._accept(_listener(family, port), handler))
        for port in (plan.DNS, *plan.UDP_SINKS):
            self._datagrams(port)

    def _keep(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket, handler: _Handler) -> None:
        loop = asyncio.get_running_loop()
        while True:
            accepted, peer = await loop.sock_accept(listener)
            connection = Connection(accepted, peer)
            connection.tell(Kind.ACCEPT)
            if len(self._tasks) < _CONNECTIONS_MAX:
                self._keep(self._serve(connection, handler))
            else:
                connection.close()

    async def _serve(self, connection: Connection, handler: _Handler) -> None:
        # A client may send what it likes and leave when it likes: that is no fault of the world.
        with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await handler(connection)
        connection.close()

    async def _web(self, connection: Connection) -> None:
        await connection.open()
        await self._requests(connection)

    async def _tls(self, connection: Connection) -> None:
        def hello(connected: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
            connection.tell(Kind.HELLO, name=name or "")
            if name:
                connected.context = self._authority.context("world.test" if name.startswith(plan.MISNAMED) else name)
            if name and name.startswith(plan.HTTP2):
                connected.context.set_alpn_protocols([http2.ALPN, "http/1.1"])

        context = self._authority.fresh("world.test")
        context.sni_callback = hello
        await connection.open(context)
        if connection.writer.get_extra_info("ssl_object").selected_alpn_protocol() == http2.ALPN:
            await self._streams(connection)
        else:
            await (self._questions if connection.port == 853 else self._requests)(connection)

    async def _streams(self, connection: Connection) -> None:
        def seen() -> None:
            connection.tell(Kind.REQUEST, b"HTTP/2")

        await http2.serve(connection.reader, connection.writer, self._pages["/hello"], seen)

    async def _requests(self, connection: Connection) -> None:
        def seen(request: web.Request) -> None:
            connection.tell(Kind.REQUEST, request.line, name=request.host)

        await web.serve(connection.reader, connection.writer, self._pages, seen)

    async def _proxy(self, connection: Connection) -> None:
        await connection.open()
        await proxy.serve(
            connection.reader,
            connection.writer,
            lambda request, host: connection.tell(Kind.REQUEST, request.line, name=host),
        )

    async def _dns(self, connection: Connection) -> None:
        await connection.open()
        await self._questions(connection)

    async def _questions(self, connection: Connection) -> None:
        while True:
            (size,) = struct.unpack("!H", await connection.reader.readexactly(2))
            wire = await connection.reader.readexactly(size)
            answer = self._names.answer(wire, lambda name: connection.tell(Kind.QUESTION, name=name))
            if answer is None:
                return
            connection.writer.write(struct.pack("!H", len(answer)) + answer)

    async def _banner(self, connection: Connection) -> None:
        await connection.open()
        connection.writer.write(plan.BANNER_TEXT)
        await self._drink(connection)

    async def _postgres(self, connection: Connection) -> None:
        await connection.open()
        await postgres.serve(connection.reader, connection.writer)

    async def _sink(self, connection: Connection) -> None:
        await connection.open()
        await self._drink(connection)

    async def _drink(self, connection: Connection) -> None:
        while await connection.reader.read(_READ):
            pass

    def _datagrams(self, port: int) -> None:
        bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        # Which of the many addresses was meant: the answer has to come from there.
        bound.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
        bound.bind(("0.0.0.0", port))  # noqa: S104 - every address of the world, which nobody else sees
        asyncio.get_running_loop().add_reader(bound, self._datagram, bound, port)

    def _datagram(self, bound: socket.socket, port: int) -> None:
        try:
            data, more, _, peer = bound.recvmsg(DATA_MAX, 256)
        except OSError:  # an earlier answer met a closed port
            return
        meant = next(_PKTINFO.unpack(value)[2] for _, kind, value in more if kind == _IP_PKTINFO)
        target = _text((socket.inet_ntoa(meant), port))

        def told(kind: Kind, name: str = "") -> None:
            event = Event(
                at_us=time.time_ns() // 1000,
                kind=kind,
                source=_text(peer),
                target=target,
                transport="udp",
                name=name,
                data=data,
                size=len(data),
            )
            tell(control.Seen(event))

        answer = None
        if port == plan.DNS:
            answer = self._names.answer(data, lambda name: told(Kind.QUESTION, name))
        else:
            told(Kind.DATAGRAM)
        if answer is not None:
            route = (socket.IPPROTO_IP, _IP_PKTINFO, _PKTINFO.pack(0, meant, bytes(4)))
            with contextlib.suppress(OSError):
                bound.sendmsg([answer], [route], 0, peer)


def _six() -> tuple[socket.AddressFamily, ...]:
    return (socket.AF_INET6,) if pathlib.Path("/proc/net/if_inet6").exists() else ()


def _listener(family: socket.AddressFamily, port: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listener.bind(("", port))
    listener.listen(_BACKLOG)
    return listener


def _text(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


async def _main() -> None:
    loop = asyncio.get_running_loop()
    asked = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(asked), sys.stdin)
    tell(control.Entered())
    capture: Capturing | None = None
    while line := await asked.readline():
        match control.ASKED.decode(line):
            case control.Begin(links=links):
                authority = Authority()
                capture = Capturing(links)
                servers = Servers(authority, site.pages())
                servers.listen()
                tell(control.Serving(authority.pem))
            case control.Ask() if capture is not None:
                for _ in range(4):  # what is in the sockets by now: accepted, read, told
                    await asyncio.sleep(0)
                tell(control.Captured(capture.read()))
            case control.Ask():
                return


def main() -> None:
    """Wait for the lock, leave the host's network, serve."""
    lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    kernel.unshare_network()
    asyncio.run(_main())


if __name__ == "__main__":
    main()
