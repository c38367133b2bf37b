"""The way to listed endpoints: who connects to a synthetic address is judged here, and connected with what it is for.

The decision comes when a connection is accepted, before its name is resolved and before anything is dialled, so it
does not matter who speaks first. This process could not dial by itself: it gets a socket of the gateway's for each
connection, which the kernel lets go to vetted pairs only (warden/network/endpoints.py).
"""

import asyncio
import contextlib
import errno
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from opensafe.errors import LimitExceeded, OpenSafeError
from opensafe.warden.feed import Call

from .accounting import Accounting
from .connections import Connections, Judge, Open, Socket
from .dns import Rate
from .endpoints import Endpoints, Pair
from .judge import Answer, Question
from .tunnel import Mover, Tunnel, abort

#: Connections of all sandboxes together; of one, those that the table allows.
MOST: Final = 4096
_CONNECT_S: Final = 5.0
_IDLE_S: Final = 600.0
#: Between two looks at what is open.
_LOOK_S: Final = 0.5
#: New connections a second of one sandbox, and how many at once; taken before others get their turn.
_RATE: Final = 100
_BURST: Final = 200
_BATCH: Final = 16
_PAUSE_S: Final = 1.0
#: linux/netfilter_ipv4.h, and sockaddr_in.
_SO_ORIGINAL_DST: Final = 80
_SOCKADDR: Final = struct.Struct("!2xH4s8x")
#: accept(2) has no room for another descriptor.
_FULL: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_log = structlog.get_logger()


def original(accepted: socket.socket) -> Pair:
    """What a connection was for before it was led here. Raises OSError where it was led by nobody."""
    port, address = _SOCKADDR.unpack(accepted.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, _SOCKADDR.size))
    return socket.inet_ntoa(address), port


class Splice:
    """Serves on a listening socket, which it closes at the end; nothing that it has open outlives it.

    call_at: the call that has the grant of a name at a source address. resolve: addresses of an allowed name that may
    be dialled; none where it has none. dial: a socket that can be connected to an address and port. meant: as
    `original`.
    """

    mover: Mover

    def __init__(
        self,
        listener: socket.socket,
        judge: Judge,
        connections: Connections,
        accounting: Accounting,
        call_at: Callable[[str, str], Call | None],
        endpoints: Endpoints,
        resolve: Callable[[str], Awaitable[Sequence[str]]],
        dial: Callable[[str, int], Awaitable[socket.socket]],
        *,
        meant: Callable[[socket.socket], Pair] = original,
        clock: Callable[[], float] = time.monotonic,
        most: int = MOST,
        connect_s: float = _CONNECT_S,
        idle_s: float = _IDLE_S,
    ) -> None:
        self._listener = listener
        self._judge = judge
        self._connections = connections
        self._accounting = accounting
        self._call_at = call_at
        self._endpoints = endpoints
        self._resolve = resolve
        self._dial = dial
        self._meant = meant
        self._most = most
        self._connect_s = connect_s
        self._idle_s = idle_s
        self._rate = Rate(_RATE, _BURST, clock)
        self._carried: set[_Carried] = set()
        self._pause: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._carried)

    async def run(self) -> None:
        """Serve until cancelled."""
        self._listener.setblocking(False)
        self._listen()
        self.mover = Mover()
        try:
            while True:
                await asyncio.sleep(_LOOK_S)
                await self._look()
        finally:
            if self._pause is not None:
                self._pause.cancel()
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            tasks = [one.task for one in self._carried]
            for one in tuple(self._carried):
                one.end()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.mover.close()

    def lead(self) -> None:
        """The endpoints have changed: cut what is open to one that is not listed any more."""
        for one in tuple(self._carried):
            if not self._endpoints.lists(one.name, one.port):
                one.open.cut = True
                one.end()

    def _listen(self) -> None:
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        """Some of those that wait. The selector calls again while more do."""
        for _ in range(_BATCH):
            try:
                guest, peer = self._listener.accept()
            except OSError as error:
                if error.errno in _FULL:
                    loop = asyncio.get_running_loop()
                    loop.remove_reader(self._listener)
                    self._pause = loop.call_later(_PAUSE_S, self._listen)
                return
            try:
                taken = self._take(guest, (peer[0], peer[1]))
            except Exception:  # noqa: BLE001 - whatever goes wrong with one, it is refused and others are served
                _log.exception("a connection could not be judged")
                taken = False
            if not taken:
                abort(guest)

    def _take(self, guest: socket.socket, source: Socket) -> bool:
        """Judge one; False where it is refused."""
        try:
            pair = self._meant(guest)
        except OSError:
            return False
        name = self._endpoints.meant(pair)
        if not name:
            return False
        question = Question(layer="tcp", source=source[0], name=name, port=pair[1])
        if not self._rate.take(source[0]):
            self._judge.refuse(question, f"egress: more than {_RATE} connections a second to listed endpoints.")
            return False
        call = self._call_at(source[0], name)
        question = self._accounting.charged(question, call)
        one = _Carried(self, guest, name, pair[1])

        def bar(answer: Answer) -> str:
            if why := self._accounting.over(call, asked=1):
                return why
            if len(self._carried) >= self._most:
                return f"egress: {self._most} connections of all sandboxes to listed endpoints are open."
            try:
                one.open = self._connections.enter(source, question, answer, call, end=one.end)
            except LimitExceeded as full:
                return f"egress: {full} ({full.value} of {full.limit}). {full.remedy}"
            return ""

        answer = self._judge.judge(question, bar)
        if not answer.allowed:
            self._accounting.refused(answer.sandbox_id, answer.name)
            return False
        self._accounting.allowed(answer.sandbox_id, answer.name, call)
        self._carried.add(one)
        guest.setblocking(False)
        one.task = asyncio.create_task(self._connect(one))
        return True

    async def _connect(self, one: "_Carried") -> None:
        try:
            one.join(await self._reach(one))
        except (OpenSafeError, OSError, TimeoutError) as error:
            _log.debug("a listed endpoint can't be reached", name=one.name, port=one.port, error=str(error))
            one.end()

    async def _reach(self, one: "_Carried") -> socket.socket:
        """A connected socket. Raises OpenSafeError, OSError, TimeoutError."""
        addresses = await self._resolve(one.name)
        if not addresses:
            raise OSError("the name has no address that may be dialled")
        problem: Exception | None = None
        for address in addresses:
            try:
                async with asyncio.timeout(self._connect_s / len(addresses)):
                    world = await self._connected(address, one.port)
            except (OSError, TimeoutError) as error:
                problem = error
            else:
                one.address = address
                return world
        raise problem or OSError("nothing was dialled")

    async def _connected(self, address: str, port: int) -> socket.socket:
        world = await self._dial(address, port)
        try:
            world.setblocking(False)
            await asyncio.get_running_loop().sock_connect(world, (address, port))
        except BaseException:
            world.close()
            raise
        return world

    async def _look(self) -> None:
        """Add up what was moved, judge again who has sent more, and end those in which nothing moves."""
        now = asyncio.get_running_loop().time()
        for one in tuple(self._carried):
            if one.tunnel is None or one not in self._carried:  # it may have ended while others were judged
                continue
            if self._connections.progress(one.open, one.tunnel.sent, one.tunnel.received):
                await self._connections.settle(self._judge, (one.open,))
                await asyncio.sleep(0)  # checks of others come between
            if now - one.tunnel.moved > self._idle_s:
                one.end()

    def left(self, one: "_Carried") -> None:
        """It has ended."""
        self._carried.discard(one)
        if one.tunnel is not None:
            self._connections.progress(one.open, one.tunnel.sent, one.tunnel.received)
        self._connections.leave(one.open, one.address)


class _Carried:
    """One connection that was allowed: first only the guest's side, then a tunnel. `end` resets it at once."""

    open: Open
    task: asyncio.Task[None]

    def __init__(self, splice: Splice, guest: socket.socket, name: str, port: int) -> None:
        self.name = name
        self.port = port
        self.address = ""
        self.tunnel: Tunnel | None = None
        self._splice = splice
        self._guest = guest
        self._over = False

    def join(self, world: socket.socket) -> None:
        """It is connected."""
        self.tunnel = Tunnel(self._splice.mover, self._guest, world, self._left)
        self.tunnel.start()

    def end(self) -> None:
        """Idempotent."""
        if self.tunnel is not None:
            self.tunnel.close()
            return
        if not self._over:
            with contextlib.suppress(RuntimeError):  # no loop runs any more
                if self.task is not asyncio.current_task():
                    self.task.cancel()
            abort(self._guest)
            self._left()

    def _left(self) -> None:
        if not self._over:
            self._over = True
            self._splice.left(self)
