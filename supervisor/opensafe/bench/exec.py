"""`opensafe bench exec`: a gated execution beside the same program run in other ways, interleaved round by round.

By turns, so that whatever else the host does falls on all alike:

- raw: the control socket alone (raw.py), in a sandbox as ours with nothing around it (unwatched.py)
- watched: the same in the sandbox of the gated calls; the monitor lets it pass, because it hears of what programs
  start, and not of what the sentry does
- runner: raw, under a guest runner of its own with the call's seccomp filter
- gated: a client's call, through gRPC, normalize, policy, the durable record, the warden and its durable ledger
- runsc: `runsc exec` in the sandbox of the raw ones; and others, where they are installed (others.py)

All are timed from where they are asked for to where output and end are known.
"""

import asyncio
import contextlib
import os
import pathlib
import struct
import subprocess
import time
from collections.abc import Callable
from typing import Final

import msgspec

from opensafe.client import Client
from opensafe.errors import HostUnsuitable, OpenSafeError
from opensafe.model.calls import Program
from opensafe.model.ids import new_id
from opensafe.model.limits import CallLimits
from opensafe.model.outcome import OutcomeKind
from opensafe.model.sandbox import Launch
from opensafe.normalize.environment import DEFAULT_CWD, GUEST_ENV
from opensafe.proof.private import PrivateDaemon
from opensafe.warden.sandbox import runner, seccomp
from opensafe.warden.sandbox.driver import GuestProgram
from opensafe.warden.sandbox.layout import Layout

from . import bulk, memory, parallel, raw, unwatched
from .others import Others, runsc_exec
from .peers import Peer
from .timing import Times

PROGRAMS: Final = {
    "true": ("/bin/true",),
    "bash": ("/bin/bash", "-c", "true"),
    "python": ("/usr/bin/python3", "-c", "pass"),
}
_PRINCIPAL: Final = "bench"
_PROFILE: Final = "default"
_ENV: Final = tuple(f"{name}={value}" for name, value in GUEST_ENV.items())
#: The runner's report (native/guest/report.h) of a leader that exited with 0 and left nobody behind.
_EXITED_0: Final = struct.pack("<IIiI", 1, 0, 0, 0)


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How much is run. each: programs a stream and batch; bulk: bytes of output."""

    rounds: int
    warm_up: int
    each: int
    bulk: int


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One program's times by way, and what of a gated one the daemon itself timed.

    decision: arrival of the call to its durable record. run: hand-over to the guest to the end, as the warden saw it.
    """

    argv: tuple[str, ...]
    times: dict[str, Times]
    decision: Times
    run: Times

    def ratio(self, way: str = "gated", to: str = "raw", percentile: str = "p50_ms") -> float:
        """Of two ways' percentiles."""
        return float(getattr(self.times[way], percentile) / getattr(self.times[to], percentile))


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Everything. others: which of the other ways ran, or why not. memory: the daemon's processes after all calls."""

    rows: dict[str, Row]
    others: dict[str, Peer]
    parallel: parallel.Parallel
    bulk: bulk.Bulk
    memory: dict[str, memory.Memory]
    runsc: str

    @property
    def pss_mb(self) -> float:
        """Of warden, front and helper together, in 10**6 bytes."""
        return sum(one.pss for one in self.memory.values()) / 1e6


def measure(sizes: Sizes, environment: pathlib.Path) -> Measured:
    """Run everything on a daemon of its own. environment: the libraries' (`make peers`). Raises OpenSafeError."""
    if os.geteuid() != 0:
        raise HostUnsuitable("the daemon that is measured needs root", remedy="Run this as root.")
    with PrivateDaemon("bench", {_PRINCIPAL: ("developer",)}) as daemon:
        return asyncio.run(_on(daemon, sizes, environment))


async def _on(daemon: PrivateDaemon, sizes: Sizes, environment: pathlib.Path) -> Measured:
    async with Client.connect(daemon.socket_of(_PRINCIPAL)) as client, unwatched.sandbox(daemon.paths) as bare:
        session = await client.create_session("bench")
        gated = _Gated(client, session, (await client.create_sandbox(session)).sandbox_id)
        with contextlib.ExitStack() as stack:
            others = Others(stack, bare, environment)
            watched = Layout.of(daemon.paths).control_socket(gated.sandbox_id), gated.sandbox_id
            rounds = {name: _Rounds(argv, gated, bare, watched, others) for name, argv in PROGRAMS.items()}
            for number in range(-sizes.warm_up, sizes.rounds):
                for one in rounds.values():
                    await one.take(number, counts=number >= 0)
            rows = {name: one.row() for name, one in rounds.items()}
        bash = PROGRAMS["bash"]
        side_by_side = await parallel.measure(
            lambda: _raw(bare.control, bare.sandbox_id, bash), lambda: gated.run(bash), sizes.each
        )
        output = await bulk.measure(client, session, gated.sandbox_id, sizes.bulk)
        pids = {"warden": daemon.pid, "front": daemon.child("front"), "helper": daemon.child("helper")}
        used = {name: memory.of(pid) for name, pid in pids.items()}
        runsc = (await client.status()).runsc_version
        await client.close_session(session)
    return Measured(rows=rows, others=others.found, parallel=side_by_side, bulk=output, memory=used, runsc=runsc)


class _Gated(msgspec.Struct, frozen=True):
    client: Client
    session: str
    sandbox_id: str

    async def run(self, argv: tuple[str, ...]) -> dict[str, int]:
        done = await self.client.run_call(self.session, self.sandbox_id, new_id("bench"), "Exec", {"argv": argv})
        if done.outcome.kind is not OutcomeKind.EXITED or done.outcome.exit_code != 0:
            how = f"gated: {done.verdict.action}, {done.outcome.kind} {done.outcome.detail}"
            raise _failed(argv, how, done.stderr)
        return {"decision": done.verdict.decision_ns, "run": done.outcome.run_ns}


class _Rounds:
    """All ways of one program, and what they took in nanoseconds."""

    def __init__(
        self,
        argv: tuple[str, ...],
        gated: _Gated,
        bare: unwatched.Unwatched,
        watched: tuple[pathlib.Path, str],
        others: Others,
    ) -> None:
        self._argv = argv
        self._gated = gated
        self._others = others
        cli = runsc_exec(bare)
        self._blocking: dict[str, Callable[[], int | None]] = {
            "raw": lambda: _raw(bare.control, bare.sandbox_id, argv),
            "watched": lambda: _raw(*watched, argv),
            "runner": lambda: _under_runner(bare.control, bare.sandbox_id, argv),
            "runsc": lambda: cli.run(argv),
        }
        self._took: dict[str, list[int]] = {}

    async def take(self, number: int, *, counts: bool) -> None:
        """Each way once. They take turns at going first."""
        ways = ["gated", *self._blocking, *self._others.ready]
        first = number % len(ways)
        for name in ways[first:] + ways[:first]:
            for part, ns in (await self._once(name)).items():
                if counts:
                    self._took.setdefault(part, []).append(ns)

    def row(self) -> Row:
        """What was measured. A way that failed on the way has no times."""
        times = {name: Times.of(took) for name, took in self._took.items()}
        decision, run = times.pop("decision"), times.pop("run")
        given_up = [name for name, other in self._others.found.items() if other.error]
        kept = {name: one for name, one in times.items() if name not in given_up}
        return Row(argv=self._argv, times=kept, decision=decision, run=run)

    async def _once(self, name: str) -> dict[str, int]:
        begun = time.perf_counter_ns()
        if name == "gated":
            parts = await self._gated.run(self._argv)
            return {name: time.perf_counter_ns() - begun, **parts}
        if name in self._blocking:
            self._blocking[name]()
            return {name: time.perf_counter_ns() - begun}
        try:
            taken = self._others.ready[name].run(self._argv)
        except (OpenSafeError, OSError, subprocess.SubprocessError) as error:
            self._others.give_up(name, error)
            return {}
        return {name: taken or time.perf_counter_ns() - begun}


def _raw(control: pathlib.Path, sandbox_id: str, argv: tuple[str, ...]) -> None:
    program = GuestProgram(argv=argv, env=_ENV, cwd=DEFAULT_CWD, capabilities=(), descriptors={})
    status, output = raw.execute(control, sandbox_id, program)
    if status or output:
        raise _failed(argv, f"raw: wait status {status}", output)


def _under_runner(control: pathlib.Path, sandbox_id: str, argv: tuple[str, ...]) -> None:
    launch = Launch(
        sandbox_id=sandbox_id,
        exec_id=new_id("exec"),
        program=Program(argv=argv, env=dict(GUEST_ENV), cwd=DEFAULT_CWD),
        profile=_PROFILE,
        limits=CallLimits(),
    )
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as passed:
        report, report_end = runner.pipe(ours, passed)
        filtered = passed.enter_context(seccomp.profile_pipe(launch.profile))
        program = runner.guest_program(launch, {}, report=report_end, filtered=filtered)
        _, output = raw.execute(control, sandbox_id, program)
        reported = os.read(report, 2 * len(_EXITED_0))
    if reported != _EXITED_0 or output:
        raise _failed(argv, f"runner: report {reported.hex()}", output)


def _failed(argv: tuple[str, ...], how: str, output: bytes) -> OpenSafeError:
    return OpenSafeError(f"{' '.join(argv)} did not run as it must: {how}", value=output[:200])
