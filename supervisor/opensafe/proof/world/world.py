"""The world from the host's side: open it, run a program in its plain namespace, read what it saw.

    async with World.open() as world:
        ...                                   # whatever routes over this host to 198.51.100.0/24 gets there
        world.log                             # what the servers saw
        await world.packets()                 # what passed its links

Its two children end with their stdin, so nothing outlives the process that opened it.
"""

import asyncio
import contextlib
import pathlib
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Final, Self, TypeVar

import msgspec

from opensafe.errors import HostUnsuitable

from . import control, links, plan
from .events import Capture, Event

_LOCK: Final = pathlib.Path("/run/opensafe-world.lock")
_DIRECTORY: Final = pathlib.Path("/run/opensafe-world")
_EVENTS_MAX: Final = 200_000
_ANSWER_S: Final = 60
_T = TypeVar("_T")
_PLAIN: Final = 'mount --bind "$1" /etc/resolv.conf && echo ready && exec cat'


class Outcome(msgspec.Struct, frozen=True):
    """How a program in the plain namespace ended. returncode: negative: the signal's number."""

    returncode: int
    stdout: bytes
    stderr: bytes


class World:
    """A world that stands. Made by `open`.

    resolver: its name server. networks: what an egress filter has to take for public addresses, which documentation
    space is not. ca_pem: the root that clients have to trust; ca_file: the same as a file, as long as it stands.
    """

    resolver: Final = plan.RESOLVER
    networks: Final = (plan.NETWORK,)

    def __init__(self, servers: asyncio.subprocess.Process) -> None:
        self.ca_pem = b""
        self.ca_file = _DIRECTORY / "ca.pem"
        self._servers = servers
        self._plain: asyncio.subprocess.Process | None = None
        self._events: list[Event] = []
        self._changed = asyncio.Condition()
        self._answers: asyncio.Queue[control.Entered | control.Serving | control.Captured | None] = asyncio.Queue()
        self._asking = asyncio.Lock()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls) -> AsyncIterator[Self]:
        """Make it; waits while another stands on this host. Everything is removed afterwards.

        Raises HostUnsuitable: no root, addresses in use, a server that does not start, or something left at the end.
        """
        name = links.new_name()
        try:
            async with contextlib.AsyncExitStack() as stack:
                servers = await _child(stack, sys.executable, "-m", "opensafe.proof.world.servers", str(_LOCK))
                world = cls(servers)
                stack.push_async_callback(_ended, asyncio.create_task(world._read()))
                await world._answer(control.Entered)
                stack.enter_context(_directory())
                await links.sweep()
                stack.push_async_callback(links.part, name)
                plain = await world._begin_plain(stack)
                await links.join(name, servers.pid, plain.pid)
                await world._begin()
                yield world
        finally:
            if await links.is_left(name):
                raise HostUnsuitable("the test world left a link behind", value=name, remedy=f"ip link del {name}")

    @property
    def log(self) -> tuple[Event, ...]:
        """What the servers saw so far, in their order."""
        return tuple(self._events)

    def egress(self, uplink: str = "") -> str:
        """The keys of a daemon's section [egress] with which this is the internet. uplink: other than the default."""
        networks = ", ".join(f'"{network}"' for network in self.networks)
        own = f'uplink = "{uplink}"\n' if uplink else ""
        return f'enabled = true\n{own}resolvers = ["{self.resolver}"]\nvetted_also = [{networks}]\n'

    async def packets(self) -> Capture:
        """What passed the links until now. Whatever servers saw of it before is in `log` as well."""
        async with self._asking:
            self._send(control.Ask())
            return (await self._answer(control.Captured)).capture

    async def until(self, wanted: Callable[[Event], bool], timeout: float = 10) -> Event:
        """The first event of that kind, past or to come. Raises TimeoutError."""
        async with asyncio.timeout(timeout), self._changed:
            while (found := next(filter(wanted, self._events), None)) is None:
                await self._changed.wait()
            return found

    async def plain(self, argv: Sequence[str], stdin: bytes = b"", timeout: float = 30) -> Outcome:
        """Run a host's program in the plain namespace, which is routed straight to the world and asks its name server.

        One that runs longer is killed, and TimeoutError raised.
        """
        assert self._plain is not None  # noqa: S101 - it stands as long as the world does
        process = await asyncio.create_subprocess_exec(
            *("nsenter", f"--target={self._plain.pid}", "--net", "--mount", "--", *argv),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(timeout):
                stdout, stderr = await process.communicate(stdin)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return Outcome(process.returncode or 0, stdout, stderr)

    def _send(self, message: control.Asked) -> None:
        assert self._servers.stdin is not None  # noqa: S101 - it was asked for
        self._servers.stdin.write(control.line(message))

    async def _begin_plain(self, stack: contextlib.AsyncExitStack) -> asyncio.subprocess.Process:
        resolving = _DIRECTORY / "resolv.conf"
        resolving.write_text(f"nameserver {plan.RESOLVER}\noptions timeout:2 attempts:1\n")
        plain = await _child(stack, "unshare", "--net", "--mount", "--", "sh", "-c", _PLAIN, "sh", str(resolving))
        assert plain.stdout is not None  # noqa: S101 - it was asked for
        if not await plain.stdout.readline():
            raise HostUnsuitable("the plain namespace can't be made", remedy="Run as root, with mount and unshare.")
        self._plain = plain
        return plain

    async def _begin(self) -> None:
        self._send(control.Begin((links.TO_HOST, links.TO_PLAIN)))
        self.ca_pem = (await self._answer(control.Serving)).pem
        self.ca_file.write_bytes(self.ca_pem)

    async def _answer(self, kind: type[_T]) -> _T:
        """The child's next answer. Entered may wait long: for another world."""
        async with asyncio.timeout(None if kind is control.Entered else _ANSWER_S):
            answer = await self._answers.get()
        if not isinstance(answer, kind):
            raise HostUnsuitable("the test world's servers ended, or saw too much", value=self._servers.returncode)
        return answer

    async def _read(self) -> None:
        assert self._servers.stdout is not None  # noqa: S101 - it was asked for
        try:
            async for line in self._servers.stdout:
                message = control.TOLD.decode(line)
                if isinstance(message, control.Seen):
                    if len(self._events) >= _EVENTS_MAX:
                        return  # a log that is not whole proves nothing: what asks next is told so
                    self._events.append(message.event)
                    async with self._changed:
                        self._changed.notify_all()
                else:
                    self._answers.put_nowait(message)
        finally:
            self._answers.put_nowait(None)


@contextlib.contextmanager
def _directory() -> Iterator[None]:
    """Make it anew: whoever holds the lock finds in it what a world left that was killed."""
    shutil.rmtree(_DIRECTORY, ignore_errors=True)
    _DIRECTORY.mkdir(mode=0o755)
    try:
        yield
    finally:
        shutil.rmtree(_DIRECTORY)


async def _child(stack: contextlib.AsyncExitStack, *argv: str) -> asyncio.subprocess.Process:
    """Start one that lives until its stdin is closed, which `stack` does."""
    child = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=control.LINE_MAX
    )
    stack.push_async_callback(_end, child)
    return child


async def _end(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        child.kill()
    await child.wait()


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
