"""`opensafe bench egress`: connections of a plain process through our gateway, beside the same that asks nobody.

The targets take turns sample by sample, so that whatever else the host does falls on all alike:

- direct: a link straight to the world's servers
- baseline: a gateway as ours, whose Envoy has the same two stages and logs but no filter that asks (egress_gateway.py)
- ours: Envoy asks the daemon's helper, which judges by the signed bundle

Then new connections through ours while many other sandboxes have a tunnel open, and what a change of policy takes
(egress_change.py). Servers are those of the test world, on this host.
"""

import asyncio
import contextlib
import os
import pathlib
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

import msgspec

from opensafe.config import EgressSettings, Paths
from opensafe.errors import HostUnsuitable, OpenSafeError
from opensafe.proof.escape.network.policy import Bundles
from opensafe.proof.private import programs
from opensafe.proof.world import World, plan
from opensafe.warden.network import namespaces

from . import egress_change, egress_client, egress_gateway
from .timing import Times

NAME: Final = "allowed.test"
TARGETS: Final = ("direct", "baseline", "ours")
#: One at a time on a host, as the world: so a run finds by these names what one left that was killed.
_DIRECTORY: Final = pathlib.Path("/run/opensafe-bench-egress")
_UPLINKS: Final = {"baseline": "10.203.244.0/30", "ours": "10.203.244.4/30"}
_PHASE_S: Final = 900.0
_TICK: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How much is run. connections, requests, bulks: samples of each target. crowd: sandboxes beside the one that is
    measured; turns: how often they come and go. changes: of the policy.
    """

    connections: int
    requests: int
    bulks: int
    bulk_bytes: int
    crowd: int
    turns: int
    changes: int
    warm_up: int


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Times by target. handshake: to the end of the TLS handshake; https: to the end of the first answer; http: of a
    request on a connection that stays; bulk: of a download. alone, crowded: as https, of ours. change: until the
    first connection that is refused. check_cpu_us: processor time of the helper, of each that it judged.
    """

    handshake: dict[str, Times]
    https: dict[str, Times]
    http: dict[str, Times]
    bulk: dict[str, Times]
    bulk_bytes: int
    alone: Times
    crowded: Times
    crowd: int
    change: Times
    check_cpu_us: float

    def ratio(self, kind: str, percentile: str = "p50_ms", to: str = "baseline") -> float:
        """Ours to another target."""
        times: dict[str, Times] = getattr(self, kind)
        return float(getattr(times["ours"], percentile) / getattr(times[to], percentile))

    @property
    def growth(self) -> float:
        """Of the median of new connections, by the others."""
        return self.crowded.p50_ms / self.alone.p50_ms

    def rate(self, target: str) -> float:
        """Median of a download, in 10**6 bytes a second."""
        return self.bulk_bytes / self.bulk[target].p50_ms / 1e3


def measure(sizes: Sizes) -> Measured:
    """Run everything, with gateways, world and daemon of its own. Raises OpenSafeError; SIGTERM ends it in order."""
    if os.geteuid() != 0:
        raise HostUnsuitable("gateways need root", remedy="Run this as root.")
    with _sigterm() as ended:
        return asyncio.run(_run(sizes, ended))


async def _run(sizes: Sizes, ended: list[Callable[[], object]]) -> Measured:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # noqa: S101 - asyncio.run made it
    ended.append(lambda: loop.call_soon_threadsafe(task.cancel))
    async with World.open() as world:
        return await _in(world, sizes)


@contextlib.contextmanager
def _sigterm() -> Iterator[list[Callable[[], object]]]:
    """What the body puts in the list is called at SIGTERM; what had the signal before has it once the body has ended.

    Not the loop's own handler: children that are forked and ended by SIGTERM would speak for it, by its descriptor.
    """
    before, own, came = signal.getsignal(signal.SIGTERM), os.getpid(), []
    called: list[Callable[[], object]] = []

    def handle(number: int, _: object) -> None:
        if os.getpid() != own:
            os._exit(128 + number)
        came.append(number)
        for one in called:
            one()

    signal.signal(signal.SIGTERM, handle)
    try:
        yield called
    except asyncio.CancelledError:
        if not came:
            raise
    finally:
        signal.signal(signal.SIGTERM, before)
    if came:
        signal.raise_signal(signal.SIGTERM)
        raise HostUnsuitable("the run was ended")


async def _in(world: World, sizes: Sizes) -> Measured:
    with _directory() as directory:
        bundles = Bundles(directory, pathlib.Path(programs().bundle))
        bundles.activate(traps=True)
        bench = _Bench(world, bundles)
        async with bench.open(directory):
            took = await bench.compare(sizes)
            alone, crowded = await bench.crowd(sizes)
        change = await egress_change.measure(world, bundles, sizes.changes)
    return Measured(
        **{kind: {name: Times.of(each[name]) for name in TARGETS} for kind, each in took.items()},
        bulk_bytes=sizes.bulk_bytes,
        alone=alone,
        crowded=crowded,
        crowd=sizes.crowd,
        change=change,
        check_cpu_us=bench.check_cpu_us,
    )


class _Bench:
    """Both gateways, before a world."""

    def __init__(self, world: World, bundles: Bundles) -> None:
        self._world = world
        self._helper = egress_gateway.Helper((NAME,), bundles.place.read_bytes(), bundles.public.read_text())
        self._sides: dict[str, egress_gateway.Side] = {}
        self._targets = {"direct": egress_client.Target(address=plan.ALLOWED, name=NAME)}
        self.check_cpu_us = 0.0

    @contextlib.asynccontextmanager
    async def open(self, directory: pathlib.Path) -> AsyncIterator[None]:
        """Have both serve one guest each."""
        async with contextlib.AsyncExitStack() as stack:
            for name, uplink in _UPLINKS.items():
                settings = EgressSettings(
                    uplink=uplink, resolvers=(self._world.resolver,), vetted_also=self._world.networks
                )
                paths = _paths(directory / name)
                helper = self._helper if name == "ours" else None
                side = await stack.enter_async_context(egress_gateway.side(paths, settings, f"b-{name}", helper))
                self._sides[name] = side
                guest = await side.guest("first")
                self._targets[name] = _target(guest)
                if helper is not None:
                    helper.grant(guest)
                    await helper.heard()
            yield

    async def compare(self, sizes: Sizes) -> egress_client.Took:
        """All targets by turns."""
        before = _cpu_ns(self._sides["ours"].pid)
        took = await self._client(warm_up=sizes.warm_up, connections=sizes.connections, requests=sizes.requests)
        each = sizes.connections + sizes.requests + 2 * sizes.warm_up
        self.check_cpu_us = (_cpu_ns(self._sides["ours"].pid) - before) / each / 1e3
        return took | await self._client(warm_up=1, bulks=sizes.bulks, bulk_bytes=sizes.bulk_bytes)

    async def crowd(self, sizes: Sizes) -> tuple[Times, Times]:
        """New connections through ours, alone and with all others there, by turns."""
        alone: list[int] = []
        crowded: list[int] = []
        count = -(-sizes.connections // sizes.turns)
        for _ in range(sizes.turns):
            alone += await self._new(count, sizes.warm_up)
            guests = [await self._sides["ours"].guest(str(number)) for number in range(sizes.crowd)]
            for guest in guests:
                self._helper.grant(guest)
                await self._helper.heard()
            crowded += await self._new(count, sizes.warm_up, guests)
            for guest in guests:
                self._helper.end(guest)
                await self._sides["ours"].leave(guest)
            await self._helper.heard()
        return Times.of(alone), Times.of(crowded)

    async def _new(self, count: int, warm_up: int, guests: list[egress_gateway.Guest] | None = None) -> list[int]:
        held = tuple(map(_target, guests or ()))
        took = await self._client(targets=("ours",), connections=count, warm_up=warm_up, held=held)
        return took["https"]["ours"]

    async def _client(self, targets: tuple[str, ...] = TARGETS, **what: object) -> egress_client.Took:
        asked = {"ca": str(self._world.ca_file), "targets": {name: self._targets[name] for name in targets}, **what}
        argv = [sys.executable, "-m", "opensafe.bench.egress_client"]
        ended = await self._world.plain(argv, msgspec.json.encode(asked), _PHASE_S)
        if ended.returncode:
            said = ended.stderr.decode(errors="replace").strip().splitlines()
            raise OpenSafeError("the bench's client failed", value=said[-1] if said else ended.returncode)
        return msgspec.json.decode(ended.stdout, type=egress_client.Took)


def _paths(place: pathlib.Path) -> Paths:
    """Of one gateway."""
    for path in (place / "state", place / "run"):
        path.mkdir(parents=True, mode=0o755)
    return msgspec.structs.replace(programs(), state=str(place / "state"), run=str(place / "run"))


def _target(guest: egress_gateway.Guest) -> egress_client.Target:
    """As another mount namespace finds it."""
    path = f"/proc/{os.getpid()}/root{guest.namespace}"
    return egress_client.Target(namespace=path, address=guest.link.gateway, name=NAME)


def _cpu_ns(pid: int) -> int:
    """What a process has used so far (proc_pid_stat(5), utime and stime)."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK


@contextlib.contextmanager
def _directory() -> Iterator[pathlib.Path]:
    """Make it anew, for whoever has the world."""
    _sweep()
    _DIRECTORY.mkdir(mode=0o755)
    try:
        yield _DIRECTORY
    finally:
        _sweep()


def _sweep() -> None:
    for path in _DIRECTORY.glob("*/run/netns/*"):
        namespaces.remove(path)
    shutil.rmtree(_DIRECTORY, ignore_errors=not _DIRECTORY.exists())
