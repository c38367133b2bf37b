"""`opensafe bench density`: does a daemon with very many sandboxes still answer, and what grows with their number?

Crowd: the time of a call in one sandbox, alone, then among very many idle ones, then alone again, so that what else the
host does falls on both; and the memory of the daemon's processes. Wear: very many calls and sandboxes that come and
go, with a look at descriptors, threads and memory after each quarter. The processes looked at are the warden, the front
and the helper, not the sandboxes.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, Self, TypeVar

import msgspec

from opensafe.client import Client, SandboxSize
from opensafe.errors import HostUnsuitable, OpenSafeError
from opensafe.model.ids import new_id
from opensafe.proof.private import PrivateDaemon

from . import memory
from .timing import Times

#: Policy counts calls a minute by principal, and so does everything else that is kept of one.
_PRINCIPALS: Final = tuple(f"bench-{number}" for number in range(4))
_PROGRAM: Final = ("/bin/true",)
_SIZE: Final = SandboxSize(memory_bytes=128 << 20)
_AT_ONCE: Final = 4
_QUARTERS: Final = 4

_Done = TypeVar("_Done")


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """Of one process, in bytes; and its open descriptors and threads."""

    pss: int
    rss: int
    descriptors: int
    threads: int

    @classmethod
    def of(cls, pid: int) -> "Used":
        """Raises OSError."""
        found = memory.of(pid)
        return cls(
            pss=found.pss,
            rss=found.rss,
            descriptors=len(os.listdir(f"/proc/{pid}/fd")),
            threads=len(os.listdir(f"/proc/{pid}/task")),
        )


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon's processes by name, after so many calls and sandboxes."""

    calls: int
    sandboxes: int
    seconds: float
    processes: Mapping[str, Used]

    @property
    def pss(self) -> int:
        """Of all together."""
        return sum(one.pss for one in self.processes.values())


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """alone, crowded: a call's time without and among `idle` other sandboxes. lone, crowd: the daemon then.

    filled: seconds that it took to make them. wear: a look before, and after each quarter.
    """

    idle: int
    alone: Times
    crowded: Times
    lone: Look
    crowd: Look
    filled: float
    emptied: float
    wear: tuple[Look, ...]
    runsc: str

    @property
    def ratio(self) -> float:
        """Crowded to alone, of the medians."""
        return self.crowded.p50_ms / self.alone.p50_ms

    @property
    def each(self) -> float:
        """Bytes (PSS) of the daemon for each idle sandbox."""
        return (self.crowd.pss - self.lone.pss) / self.idle

    def growth(self) -> dict[str, int]:
        """Of each process, resident bytes over the second half: by then what has a cap is full."""
        first, last = self.wear[_QUARTERS // 2].processes, self.wear[-1].processes
        return {name: last[name].rss - used.rss for name, used in first.items()}

    def grown(self) -> dict[str, int]:
        """Descriptors and threads that a process has more at the end than half way; none is good."""
        first, last = self.wear[_QUARTERS // 2].processes, self.wear[-1].processes
        more = {
            name: last[name].descriptors - used.descriptors + last[name].threads - used.threads
            for name, used in first.items()
        }
        return {name: count for name, count in more.items() if count > 0}


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything."""

    idle: int
    rounds: int
    calls: int
    sandboxes: int


def measure(sizes: Sizes) -> Measured:
    """Crowd, then wear, each on a daemon of its own. Raises OpenSafeError."""
    if os.geteuid() != 0:
        raise HostUnsuitable("the daemon that is measured needs root", remedy="Run this as root.")
    with _daemon(sizes.idle + 1) as daemon:
        crowd = asyncio.run(_crowd(daemon, sizes))
    with _daemon(_AT_ONCE) as daemon:
        wear = asyncio.run(_wear(daemon, sizes))
    return msgspec.structs.replace(crowd, wear=wear)


def _daemon(sandboxes: int) -> PrivateDaemon:
    return PrivateDaemon("bench", dict.fromkeys(_PRINCIPALS, ("developer",)), more=f"[caps]\nsandboxes = {sandboxes}\n")


async def _crowd(daemon: PrivateDaemon, sizes: Sizes) -> Measured:
    async with _Hands(daemon) as hands:
        one = await hands.create()
        await hands.times(one, sizes.rounds // 10 + 1)
        alone = await hands.times(one, sizes.rounds)
        lone = hands.look()
        begun = time.monotonic()
        others = await hands.each(sizes.idle, lambda _: hands.create())
        filled = time.monotonic() - begun
        crowd = hands.look()
        crowded = await hands.times(one, 2 * sizes.rounds)
        begun = time.monotonic()
        await hands.each(sizes.idle, lambda number: hands.delete(others[number]))
        emptied = time.monotonic() - begun
        alone += await hands.times(one, sizes.rounds)
        return Measured(
            idle=sizes.idle,
            alone=Times.of(alone),
            crowded=Times.of(crowded),
            lone=lone,
            crowd=crowd,
            filled=round(filled, 1),
            emptied=round(emptied, 1),
            wear=(),
            runsc=(await hands.clients[0].status()).runsc_version,
        )


async def _wear(daemon: PrivateDaemon, sizes: Sizes) -> tuple[Look, ...]:
    async with _Hands(daemon) as hands:
        looks = [hands.look()]
        for quarter in range(_QUARTERS):
            count = _share(sizes.sandboxes, quarter)
            calls = iter(_shares(_share(sizes.calls, quarter), count))

            async def live(_: int, calls: Iterator[int] = calls) -> None:
                sandbox = await hands.create()
                for _ in range(next(calls)):
                    await hands.call(sandbox)
                await hands.delete(sandbox)

            await hands.each(count, live)
            looks.append(hands.look())
        return tuple(looks)


def _share(total: int, quarter: int) -> int:
    return total * (quarter + 1) // _QUARTERS - total * quarter // _QUARTERS


def _shares(total: int, parts: int) -> list[int]:
    return [total * (part + 1) // parts - total * part // parts for part in range(parts)]


class _Place(msgspec.Struct, frozen=True):
    """A sandbox, and whose it is."""

    client: Client
    session: str
    sandbox_id: str


class _Hands:
    """Clients of several principals, and what they do; what was done is counted."""

    def __init__(self, daemon: PrivateDaemon) -> None:
        self._daemon = daemon
        self._pids = {"warden": daemon.pid, "front": daemon.child("front"), "helper": daemon.child("helper")}
        self._stack = contextlib.AsyncExitStack()
        self._sessions: list[str] = []
        self._calls = self._sandboxes = 0
        self._begun = time.monotonic()
        self.clients: list[Client] = []

    async def __aenter__(self) -> Self:
        for one in _PRINCIPALS:
            self.clients.append(await self._stack.enter_async_context(Client.connect(self._daemon.socket_of(one))))
        self._sessions = [await client.create_session("bench") for client in self.clients]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def create(self) -> _Place:
        """Make a sandbox, of each principal in turn."""
        turn = self._sandboxes % len(self.clients)
        self._sandboxes += 1
        client, session = self.clients[turn], self._sessions[turn]
        return _Place(client, session, (await client.create_sandbox(session, size=_SIZE)).sandbox_id)

    async def delete(self, place: _Place) -> None:
        """Remove it."""
        await place.client.delete_sandbox(place.sandbox_id, wait=True)

    async def call(self, place: _Place) -> int:
        """Run a program in it; nanoseconds."""
        self._calls += 1
        begun = time.perf_counter_ns()
        done = await place.client.run_call(place.session, place.sandbox_id, new_id("bench"), "Exec", {"argv": _PROGRAM})
        if done.outcome.exit_code != 0:
            raise OpenSafeError(f"a call ended as {done.outcome.kind}", value=done.outcome.detail)
        return time.perf_counter_ns() - begun

    async def times(self, place: _Place, rounds: int) -> list[int]:
        """Run it so often, one after the other."""
        return [await self.call(place) for _ in range(rounds)]

    async def each(self, count: int, work: Callable[[int], Awaitable[_Done]]) -> list[_Done]:
        """Do it `count` times, a few at once."""
        numbers = iter(range(count))
        done: dict[int, _Done] = {}

        async def some() -> None:
            for number in numbers:
                done[number] = await work(number)

        await asyncio.gather(*(some() for _ in range(_AT_ONCE)))
        return [done[number] for number in range(count)]

    def look(self) -> Look:
        """At the daemon's processes, now."""
        return Look(
            calls=self._calls,
            sandboxes=self._sandboxes,
            seconds=round(time.monotonic() - self._begun, 1),
            processes={name: Used.of(pid) for name, pid in self._pids.items()},
        )
