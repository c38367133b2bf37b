"""`opensafe bench audit`: what a call waits for until its evidence is on disk, and how fast the evidence verifies.

In this process, on the parts that front and warden are made of, in a directory below /var/lib, so that "on disk" means
what it says there:

- wait: fifty calls a second, one after the other; each writes its decision and its ledger entry, and waits for both as
  front and warden do. By turns with it the baseline: as many bytes appended to a file, and one fdatasync.
- group: many callers at once, each waiting for its own record.
- telemetry: `bash -c true` through a daemon with traces and metrics, and by turns through one without.
- verify: `audit verify` over a log of so many megabytes, with its ledger and a signed checkpoint.
"""

import asyncio
import contextlib
import os
import pathlib
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable
from typing import Final

import msgspec

from opensafe.audit.log import AuditLog
from opensafe.audit.verify import verify_state
from opensafe.client import Client
from opensafe.config import AuditSettings
from opensafe.errors import OpenSafeError
from opensafe.model import chain
from opensafe.model.calls import Program
from opensafe.model.ids import new_id, now_us
from opensafe.model.limits import CallLimits
from opensafe.model.records import Bundle, DecisionRecord
from opensafe.model.sandbox import Launch
from opensafe.policy.bundle import load
from opensafe.policy.engine import Engine
from opensafe.policy.keys import trust_files
from opensafe.proof.private import PrivateDaemon, programs, trusted_key
from opensafe.warden import kernel
from opensafe.warden.checkpoints import Checkpoints
from opensafe.warden.decisions import Decisions
from opensafe.warden.ledger import Ledger
from opensafe.warden.protocol import RecordRef
from opensafe.warden.segments import Segments

from .decision import CALLS, ordinary
from .timing import Times

_PLACE: Final = pathlib.Path("/var/lib")
_EVERY_S: Final = 0.02
_CALLERS: Final = 64


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """write: sealing and writing both, with the warden's check. wait: until both are on disk. bare: one fdatasync.

    record_bytes: of one decision's line. told, untold: gated executions with and without telemetry.
    """

    write: Times
    wait: Times
    bare: Times
    record_bytes: int
    records_per_s: float
    told: Times
    untold: Times
    verified_bytes: int
    verified_records: int
    verify_s: float

    @property
    def wait_ratio(self) -> float:
        """Medians, a call's wait to one fdatasync."""
        return self.wait.p50_ms / self.bare.p50_ms

    @property
    def telemetry_ratio(self) -> float:
        """Medians, an execution with telemetry to one without."""
        return self.told.p50_ms / self.untold.p50_ms

    @property
    def verify_mb_per_s(self) -> float:
        """Log and ledger, in 10^6 bytes."""
        return self.verified_bytes / 1e6 / self.verify_s


def measure(rounds: int, warm_up: int, group: int, verify_mb: int) -> Measured:
    """Wait `warm_up` + `rounds` times, append `group` records, verify a log of `verify_mb`. Raises OpenSafeError."""
    made = _example()
    with tempfile.TemporaryDirectory(prefix="opensafe-bench-", dir=_PLACE, ignore_cleanup_errors=True) as name:
        directory = pathlib.Path(name)
        try:
            with _telling(True) as told, _telling(False) as untold:
                both = asyncio.run(_executions(told, untold, rounds, warm_up))
            return asyncio.run(_measure(directory, made, rounds, warm_up, group, verify_mb, both))
        finally:
            for path in directory.rglob("segment-*"):
                kernel.unprotect(path)
            shutil.rmtree(directory, ignore_errors=True)


async def _measure(
    directory: pathlib.Path,
    made: DecisionRecord,
    rounds: int,
    warm_up: int,
    group: int,
    verify_mb: int,
    executions: tuple[Times, Times],
) -> Measured:
    async with _evidence(directory / "wait") as evidence:
        writes, waits, bares, line = [], [], [], b""
        with (directory / "bare").open("ab", buffering=0) as bare:
            for number in range(warm_up + rounds):
                begun_call = time.perf_counter_ns()
                line, waiting = evidence.write(made)
                written = time.perf_counter_ns()
                await waiting
                waited = time.perf_counter_ns() - written
                await asyncio.sleep(_EVERY_S)  # both come after the same rest
                begun = time.perf_counter_ns()
                bare.write(line)
                os.fdatasync(bare.fileno())
                synced = time.perf_counter_ns() - begun
                if number >= warm_up:
                    writes.append(written - begun_call)
                    waits.append(waited)
                    bares.append(synced)
                await asyncio.sleep(_EVERY_S)
        records_per_s = await evidence.burst(made, group)
    state = directory / "verify"
    await _long_log(state, made, verify_mb * 10**6)
    started = time.perf_counter()
    report = verify_state(state)
    taken = time.perf_counter() - started
    if not report.ok or report.signed != report.records:
        raise OpenSafeError("the log that was to be verified does not verify", value=report.findings[:1])
    return Measured(
        write=Times.of(writes),
        wait=Times.of(waits),
        bare=Times.of(bares),
        record_bytes=len(line),
        records_per_s=records_per_s,
        told=executions[0],
        untold=executions[1],
        verified_bytes=report.bytes,
        verified_records=report.records,
        verify_s=taken,
    )


def _telling(telemetry: bool) -> PrivateDaemon:
    more = "" if telemetry else '[telemetry]\ntraces = false\nmetrics = ""\n'
    return PrivateDaemon("bench", {"bench": ("developer",)}, more=more)


async def _executions(told: PrivateDaemon, untold: PrivateDaemon, rounds: int, warm_up: int) -> tuple[Times, Times]:
    """Of both daemons, by turns."""
    async with contextlib.AsyncExitStack() as stack:
        places = []
        for daemon in told, untold:
            client = await stack.enter_async_context(Client.connect(daemon.socket_of("bench")))
            session = await client.create_session("bench")
            places.append((client, session, (await client.create_sandbox(session)).sandbox_id, list[int]()))
        for number in range(warm_up + rounds):
            for client, session, sandbox, taken in places:
                begun = time.perf_counter_ns()
                await client.run_call(session, sandbox, f"call-{number}", "Exec", {"argv": ["/bin/bash", "-c", "true"]})
                if number >= warm_up:
                    taken.append(time.perf_counter_ns() - begun)
        first, second = (Times.of(taken) for _, _, _, taken in places)
        return first, second


class _Evidence:
    """A log, and the ledger of who reads it."""

    def __init__(self, log: AuditLog, decisions: Decisions, ledger: Ledger) -> None:
        self._log = log
        self._decisions = decisions
        self._ledger = ledger

    def write(self, made: DecisionRecord) -> tuple[bytes, Awaitable[object]]:
        """What a call writes between its verdict and its start: the record's line, and what it then waits for."""
        launch = _launch()
        record = msgspec.structs.replace(made, subject=launch.subject_digest(), exec_id=launch.exec_id)
        written = self._log.write(record)
        ref = RecordRef(segment=written.segment, offset=written.offset, length=len(written.line), leaf=written.leaf)
        decided = self._decisions.check(ref, launch)
        position = self._ledger.append(
            "start",
            sandbox_id=launch.sandbox_id,
            exec_id=launch.exec_id,
            leaf=ref.leaf,
            subject=decided.subject or "",
        )
        # As Warden._start_program does; what Gate._execute waits for beside it delays no start.
        return written.line, asyncio.gather(self._decisions.settled(ref), self._ledger.durable(position))

    async def burst(self, made: DecisionRecord, count: int) -> float:
        """So many records by many callers at once; records a second."""

        async def append(number: int) -> None:
            for _ in range(number):
                await self._log.append(made)

        begun = time.perf_counter()
        await asyncio.gather(*(append(count // _CALLERS) for _ in range(_CALLERS)))
        return count // _CALLERS * _CALLERS / (time.perf_counter() - begun)


@contextlib.asynccontextmanager
async def _evidence(state: pathlib.Path) -> AsyncIterator[_Evidence]:
    async with _signed(state) as (segments, ledger, checkpoints):
        log = AuditLog(os.dup(segments.writer), [segments.path(0)], lambda *_: None)
        await log.open()
        try:
            yield _Evidence(log, Decisions(segments, ledger, checkpoints), ledger)
        finally:
            await log.close()


@contextlib.asynccontextmanager
async def _signed(state: pathlib.Path) -> AsyncIterator[tuple[Segments, Ledger, Checkpoints]]:
    """The warden's side of a log, signed at the end."""
    os.mkdir(state)
    with contextlib.ExitStack() as stack:
        segments = Segments(state / "audit", os.getegid())
        stack.callback(segments.close)
        ledger = Ledger(state / "ledger.jsonl")
        stack.callback(ledger.close)
        checkpoints = Checkpoints(state, os.getegid(), "bench", segments, ledger, AuditSettings())
        await checkpoints.begin()
        try:
            yield segments, ledger, checkpoints
        finally:
            await checkpoints.close()


async def _long_log(state: pathlib.Path, made: DecisionRecord, size: int) -> None:
    """A signed log of about so many bytes, in segments as a daemon makes them. Nothing was started on its decisions."""
    segment_bytes = AuditSettings().segment_bytes
    head, left, in_segment = chain.Head(), size, 0
    async with _signed(state) as (segments, _, _):
        while left > 0:
            fields = {"decision_id": new_id("dec"), "call_id": f"call-{head.size}", "subject": ""}
            sealed = chain.seal(head, msgspec.structs.replace(made, **fields))
            head = sealed.head
            if in_segment >= segment_bytes:
                segments.begin_next()
                in_segment = 0
            in_segment += os.write(segments.writer, sealed.line + b"\n")
            left -= len(sealed.line) + 1


def _launch() -> Launch:
    return Launch(
        exec_id=new_id("exec"),
        sandbox_id=new_id("sb"),
        program=Program(argv=("/bin/true",), env={}, cwd="/workspace"),
        limits=CallLimits(),
        profile="default",
    )


def _example() -> DecisionRecord:
    """The record of an ordinary call, as policy judges it."""
    loaded = load(pathlib.Path(programs().bundle), trusted=trust_files([trusted_key()]))
    engine = Engine(loaded)
    try:
        call = ordinary(engine, *CALLS["bash, five commands"])
        result = engine.evaluate(call.entrypoint, call.asked)
    finally:
        engine.close()
    return DecisionRecord(
        time_us=now_us(),
        decision_id=call.asked.id,
        purpose="call",
        principal="bench",
        session_id=new_id("ses"),
        call_id="call-1",
        sandbox_id=new_id("sb"),
        exec_id="",
        bundles={"opensafe": Bundle(revision=loaded.revision, digest=loaded.digest)},
        path=f"opensafe/{call.entrypoint}",
        input=call.asked,
        result=result,
        subject="",
        metrics={"timer_rego_query_eval_ns": 1},
        trace_id=secrets.token_hex(16),
        span_id=secrets.token_hex(8),
    )
