"""`opensafe bench exec`: a gated execution beside a raw one of the same program in the same sandbox, interleaved.

Two ways, in turn, so that whatever else the host does falls on both alike:

- raw: the control socket alone (raw.py), which the monitor lets pass because it hears of what programs start, and not
  of what the sentry does
- gated: a client's call, through gRPC, normalize, policy, the durable record, the warden and its durable ledger

Both are timed from where they are asked for to where output and end are known.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from opensafe.client import Client
from opensafe.errors import HostUnsuitable, OpenSafeError
from opensafe.model.ids import new_id
from opensafe.model.outcome import OutcomeKind
from opensafe.normalize.environment import DEFAULT_CWD, GUEST_ENV
from opensafe.warden.sandbox.driver import GuestProgram
from opensafe.warden.sandbox.layout import Layout

from . import memory, raw
from .private import PrivateDaemon
from .timing import Times

PROGRAMS: Final = {
    "true": ("/bin/true",),
    "bash": ("/bin/bash", "-c", "true"),
    "python": ("/usr/bin/python3", "-c", "pass"),
}
_PRINCIPAL: Final = "bench"
_ENV: Final = tuple(f"{name}={value}" for name, value in GUEST_ENV.items())


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One program's times. ratio: gated to raw, of the medians.

    decision: arrival of the call to its durable record. run: hand-over to the sentry to the end, as the warden saw it.
    """

    argv: tuple[str, ...]
    raw: Times
    gated: Times
    decision: Times
    run: Times
    ratio: float


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The rows by name, and the memory of the daemon's processes after all calls."""

    rows: dict[str, Row]
    memory: dict[str, memory.Memory]
    runsc: str

    @property
    def pss_mb(self) -> float:
        """Of warden, front and helper together, in 10**6 bytes."""
        return sum(one.pss for one in self.memory.values()) / 1e6


def measure(rounds: int, warm_up: int) -> Measured:
    """Run everything `warm_up` + `rounds` times on a daemon of its own. Raises OpenSafeError."""
    if os.geteuid() != 0:
        raise HostUnsuitable("the daemon that is measured needs root", remedy="Run this as root.")
    with PrivateDaemon("bench", {_PRINCIPAL: ("developer",)}) as daemon:
        return asyncio.run(_on(daemon, rounds, warm_up))


async def _on(daemon: PrivateDaemon, rounds: int, warm_up: int) -> Measured:
    async with Client.connect(daemon.socket_of(_PRINCIPAL)) as client:
        session = await client.create_session("bench")
        sandbox_id = (await client.create_sandbox(session)).sandbox_id
        ways = {name: _Ways(daemon, client, session, sandbox_id, argv) for name, argv in PROGRAMS.items()}
        for number in range(-warm_up, rounds):
            for way in ways.values():
                await way.take(number, counts=number >= 0)
        pids = {"warden": daemon.pid, "front": daemon.child("front"), "helper": daemon.child("helper")}
        used = {name: memory.of(pid) for name, pid in pids.items()}
        runsc = (await client.status()).runsc_version
        await client.close_session(session)
    return Measured(rows={name: way.row() for name, way in ways.items()}, memory=used, runsc=runsc)


class _Ways:
    """The two ways of one program, and what they took in nanoseconds."""

    def __init__(
        self, daemon: PrivateDaemon, client: Client, session: str, sandbox_id: str, argv: tuple[str, ...]
    ) -> None:
        self._control = Layout.of(daemon.paths).control_socket(sandbox_id)
        self._client = client
        self._session = session
        self._sandbox_id = sandbox_id
        self._argv = argv
        self._took: dict[str, list[int]] = {name: [] for name in ("raw", "gated", "decision", "run")}

    async def take(self, number: int, *, counts: bool) -> None:
        """Each way once. They take turns at going first."""
        ways: list[tuple[str, Callable[[], Awaitable[dict[str, int]]]]] = [
            ("raw", self._raw), ("gated", self._gated),
        ]  # fmt: skip
        first = number % len(ways)
        for name, way in ways[first:] + ways[:first]:
            begun = time.perf_counter_ns()
            parts = await way()
            took = {name: time.perf_counter_ns() - begun, **parts}
            if counts:
                for part, ns in took.items():
                    self._took[part].append(ns)

    def row(self) -> Row:
        """What was measured."""
        times = {name: Times.of(took) for name, took in self._took.items()}
        return Row(argv=self._argv, ratio=times["gated"].p50_ms / times["raw"].p50_ms, **times)

    async def _raw(self) -> dict[str, int]:
        program = GuestProgram(argv=self._argv, env=_ENV, cwd=DEFAULT_CWD, capabilities=(), descriptors={})
        status, output = raw.execute(self._control, self._sandbox_id, program)
        if status or output:
            raise self._failed(f"raw: wait status {status}", output)
        return {}

    async def _gated(self) -> dict[str, int]:
        done = await self._client.run_call(
            self._session, self._sandbox_id, new_id("bench"), "Exec", {"argv": self._argv}
        )
        if done.outcome.kind is not OutcomeKind.EXITED or done.outcome.exit_code != 0:
            raise self._failed(f"gated: {done.verdict.action}, {done.outcome.kind} {done.outcome.detail}", done.stderr)
        return {"decision": done.verdict.decision_ns, "run": done.outcome.run_ns}

    def _failed(self, how: str, output: bytes) -> OpenSafeError:
        return OpenSafeError(f"{' '.join(self._argv)} did not run as it must: {how}", value=output[:200])
