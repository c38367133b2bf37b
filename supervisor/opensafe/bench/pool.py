"""`opensafe bench pool`: from asking for a sandbox to the end of a first program in it, warm, cold and by runsc itself.

By turns in one run, so that whatever else the host does falls on all alike:

- warm: a client's create that the pool serves, and a call of `/bin/true`
- cold: the same with limits for which there is no pool
- stock: `runsc create`, `start` and `exec` (stock.py)

Then very many claims at once on what is ready.
"""

import asyncio
import os
import pathlib
import time
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from opensafe.client import Client, SandboxSize
from opensafe.errors import HostUnsuitable, NoWarmSandbox, OpenSafeError
from opensafe.model.ids import new_id
from opensafe.model.limits import SandboxLimits
from opensafe.proof.private import PrivateDaemon

from .stock import Stock
from .timing import Times

_PRINCIPAL: Final = "bench"
_PROGRAM: Final = ("/bin/true",)
#: Limits of no pool, and otherwise as good as the default.
_COLD: Final = SandboxSize(pids=SandboxLimits().pids - 1)
_POLL_S: Final = 0.02
_FILL_S: Final = 600.0


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Times to the end of the first program. claim, create: the warden's part in a warm one, and in a cold one.

    claims: that many asked at once on `ready` ones. served: how many got one; shared: got one that another had as well.
    """

    warm: Times
    cold: Times
    stock: Times
    claim: Times
    create: Times
    claims: int
    ready: int
    served: int
    shared: int
    burst: Times
    runsc: str

    @property
    def ratio(self) -> float:
        """Cold to stock, of the medians."""
        return self.cold.p50_ms / self.stock.p50_ms


def measure(rounds: int, warm_up: int, claims: int, ready: int) -> Measured:
    """Run everything `warm_up` + `rounds` times on a daemon of its own. Raises OpenSafeError."""
    if os.geteuid() != 0:
        raise HostUnsuitable("the daemon that is measured needs root", remedy="Run this as root.")
    caps = f"[caps]\nsandboxes = {claims + ready}\n"
    pool = f'[[pool]]\nprincipal = "{_PRINCIPAL}"\nready = {ready}\n'
    with PrivateDaemon("bench", {_PRINCIPAL: ("developer",)}, more=caps + pool) as daemon:
        paths = daemon.paths
        rootfs = pathlib.Path(paths.images) / "base/rootfs"
        with Stock(pathlib.Path(paths.runsc), rootfs, pathlib.Path(paths.native) / "guest") as stock:
            return asyncio.run(_on(daemon, stock, rounds, warm_up, claims))


async def _on(daemon: PrivateDaemon, stock: Stock, rounds: int, warm_up: int, claims: int) -> Measured:
    async with Client.connect(daemon.socket_of(_PRINCIPAL)) as client:
        ways = _Ways(client, await client.create_session("bench"), stock)
        for number in range(-warm_up, rounds):
            await ways.take(number, counts=number >= 0)
        await ways.burst(claims)
        status = await client.status()
        took = {name: Times.of(found) for name, found in ways.took.items()}
        return Measured(
            **took,
            claims=claims,
            ready=status.pool[0].wanted,
            served=len(ways.served),
            shared=len(ways.served) - len(set(ways.served)),
            runsc=status.runsc_version,
        )


class _Ways:
    """The ways, and what they took in nanoseconds."""

    def __init__(self, client: Client, session: str, stock: Stock) -> None:
        self._client = client
        self._session = session
        self._stock = stock
        self.took: dict[str, list[int]] = {}
        self.served: list[bytes] = []

    async def take(self, number: int, *, counts: bool) -> None:
        """Each way once, on a pool that is full. They take turns at going first."""
        ways: list[Callable[[], Awaitable[dict[str, int]]]] = [self._warm, self._cold, self._by_runsc]
        first = number % len(ways)
        for way in ways[first:] + ways[:first]:
            await self._full()
            for part, ns in (await way()).items():
                if counts:
                    self.took.setdefault(part, []).append(ns)

    async def burst(self, claims: int) -> None:
        """So many claims at once, and the times of those served; then a mark in each, to see whether another has it."""
        await self._full()

        async def claim() -> str | None:
            begun = time.perf_counter_ns()
            try:
                made = await self._client.create_sandbox(self._session, require_warm=True)
            except NoWarmSandbox:
                return None
            self.took.setdefault("burst", []).append(time.perf_counter_ns() - begun)
            return made.sandbox_id

        made = [one for one in await asyncio.gather(*(claim() for _ in range(claims))) if one is not None]
        for one in made:
            await self._call(one, "Bash", {"command": f"echo {one} >> mark"})
        self.served = [await self._call(one, "Bash", {"command": "cat mark"}) for one in made]
        if any(mark.count(b"\n") != 1 for mark in self.served):
            raise OpenSafeError("a sandbox was handed out twice", value=self.served)

    async def _warm(self) -> dict[str, int]:
        begun = time.perf_counter_ns()
        made = await self._client.create_sandbox(self._session, require_warm=True)
        await self._call(made.sandbox_id, "Exec", {"argv": _PROGRAM})
        took = time.perf_counter_ns() - begun
        await self._client.delete_sandbox(made.sandbox_id, wait=True)
        return {"warm": took, "claim": made.claim_ns}

    async def _cold(self) -> dict[str, int]:
        begun = time.perf_counter_ns()
        made = await self._client.create_sandbox(self._session, size=_COLD)
        await self._call(made.sandbox_id, "Exec", {"argv": _PROGRAM})
        took = time.perf_counter_ns() - begun
        await self._client.delete_sandbox(made.sandbox_id, wait=True)
        return {"cold": took, "create": made.create_ns}

    async def _by_runsc(self) -> dict[str, int]:
        return {"stock": self._stock.take(_PROGRAM)}

    async def _call(self, sandbox: str, tool: str, arguments: dict[str, object]) -> bytes:
        done = await self._client.run_call(self._session, sandbox, new_id("bench"), tool, arguments)
        if done.outcome.exit_code != 0:
            raise OpenSafeError(f"{tool} did not run as it must", value=f"{done.outcome.kind} {done.stderr[:200]!r}")
        return done.stdout

    async def _full(self) -> None:
        """Until the pool is full: what it does to become that must not be measured."""
        try:
            async with asyncio.timeout(_FILL_S):
                while True:
                    [state] = (await self._client.status()).pool
                    if state.ready == state.wanted:
                        return
                    if state.failures:
                        raise OpenSafeError("the pool makes no cells", value=state.error)
                    await asyncio.sleep(_POLL_S)
        except TimeoutError as error:
            raise OpenSafeError("the pool does not become full", limit=f"{_FILL_S:.0f} s") from error
