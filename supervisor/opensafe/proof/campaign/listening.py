"""Oracles 3 and 4: listeners of the host's that nobody may reach, and frames that nobody may send."""

import asyncio
import collections
import contextlib
import ctypes
import pathlib
import secrets
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

from pyroute2 import IPRoute

from .arena import Ports
from .oracles import Finding, Oracle

_ETH_P_IP: Final = 0x0800
_SO_ATTACH_FILTER: Final = 26
#: Destination address in an IPv4 header.
_DESTINATION_AT: Final = 16
_KEPT_MAX: Final = 1000
_HEADINGS: Final = 2


class Listening:
    """Listeners on TCP, UDP and Unix sockets, and a capture of what is sent to an address that only a sandbox knows."""

    def __init__(self, directory: pathlib.Path, address: str) -> None:
        """directory: where the Unix listener lies. address: another than loopback, of this host."""
        self._accepted: collections.deque[str] = collections.deque(maxlen=_KEPT_MAX)
        self._frames: collections.deque[str] = collections.deque(maxlen=_KEPT_MAX)
        self.path = directory / "listener"
        # Of the host's loopback, and of no route that leads elsewhere.
        self._sentinel = f"127.{200 + secrets.randbelow(50)}.{secrets.randbelow(256)}.{1 + secrets.randbelow(250)}"
        self._address = address
        self.ports = Ports(tcp=0, udp=0, sentinel=self._sentinel, other=address, abstract="")

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, directory: pathlib.Path) -> AsyncIterator["Listening"]:
        """Listen. Needs root, for the capture."""
        made = cls(directory, await asyncio.to_thread(_other_address))
        async with contextlib.AsyncExitStack() as stack:
            await made._open(stack)
            yield made

    def look(self) -> Iterator[Finding]:
        """What came since the last look."""
        while self._accepted:
            yield Finding(oracle=Oracle.ACCEPT, what=self._accepted.popleft())
        while self._frames:
            yield Finding(oracle=Oracle.FRAME, what=self._frames.popleft())

    async def _open(self, stack: contextlib.AsyncExitStack) -> None:
        loop = asyncio.get_running_loop()
        abstract = f"opensafe-canary-{secrets.token_hex(8)}"
        tcp = await stack.enter_async_context(
            await asyncio.start_server(self._accept("TCP on loopback"), "127.0.0.1", 0)
        )
        port = tcp.sockets[0].getsockname()[1]
        for host in {self._sentinel, self._address} - {"127.0.0.1"}:
            server = await asyncio.start_server(self._accept(f"TCP on {host}"), host, port)
            await stack.enter_async_context(server)
        for name, path in (("at a path", str(self.path)), ("abstract", f"\0{abstract}")):
            server = await asyncio.start_unix_server(self._accept(f"Unix socket {name}"), path)
            await stack.enter_async_context(server)
        self.path.chmod(0o777)
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        stack.callback(datagrams.close)
        datagrams.bind((self._sentinel, 0))
        frames = _capturing(self._sentinel)
        stack.callback(frames.close)
        for sock, kept, name in ((datagrams, self._accepted, "UDP datagram"), (frames, self._frames, "frame")):
            loop.add_reader(sock, _drain, sock, kept, name)
            stack.callback(loop.remove_reader, sock)
        self.ports = Ports(
            tcp=port,
            udp=datagrams.getsockname()[1],
            sentinel=self._sentinel,
            other=self._address,
            abstract=abstract,
        )

    def _accept(self, name: str) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._accepted.append(f"{name} accepted {writer.get_extra_info('peername')!r}")
            writer.close()

        return accepted


def frames_of(sentry: int) -> Iterator[Finding]:
    """What passed the devices of a sandbox that has no way out: /proc/PID/net/dev, of its namespace."""
    lines = pathlib.Path(f"/proc/{sentry}/net/dev").read_text().splitlines()[_HEADINGS:]
    for line in lines:
        name, _, counters = line.partition(":")
        numbers = [int(word) for word in counters.split()]
        if numbers[1] or numbers[9]:
            yield Finding(oracle=Oracle.FRAME, what=f"{name.strip()} has {numbers[1]} frames in, {numbers[9]} out")


def _drain(sock: socket.socket, kept: collections.deque[str], name: str) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            data, peer = sock.recvfrom(2048)
            kept.append(f"{name} of {len(data)} bytes from {peer!r}")


def _capturing(address: str) -> socket.socket:
    """A packet socket on loopback that gets what is sent to this address (classic BPF over the IPv4 header)."""
    wanted = int.from_bytes(socket.inet_aton(address))
    instructions = ((0x20, 0, 0, _DESTINATION_AT), (0x15, 0, 1, wanted), (0x06, 0, 0, 0xFFFF), (0x06, 0, 0, 0))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in instructions))
    capturing = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, 0)
    filtering = struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(code))
    capturing.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filtering)
    capturing.bind(("lo", _ETH_P_IP))  # where all of 127.0.0.0/8 is
    return capturing


def _other_address() -> str:
    with IPRoute() as route:
        addresses = [str(one.get_attr("IFA_ADDRESS")) for one in route.get_addr(family=socket.AF_INET)]
    return next((one for one in addresses if not one.startswith("127.")), "127.0.0.1")
