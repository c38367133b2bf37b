"""Shadow: what a candidate bundle, or a rule that the site put in shadow, would have said. It decides nothing.

A reader of the audit log: a decision is looked at once it is durable, so nothing here stands in a call's way. The
candidate is verified and compiled in a process that is bounded and ends. Each decision is judged on it in a thread of
this process, within an engine's deadline and memory; WebAssembly runs without the interpreter's lock. Whoever falls
more than a bounded number of decisions behind skips them and counts them. A restart ends it: a candidate is not state.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec
import structlog

from opensafe.audit.log import AuditLog, Written
from opensafe.errors import AuditError, Conflict, LimitExceeded, NotPermitted
from opensafe.model.calls import Principal
from opensafe.model.decision import Action, Decision
from opensafe.model.ids import now_us
from opensafe.model.records import Bundle, CandidateRecord, DecisionRecord, ShadowRecord
from opensafe.model.shadow import Candidate, ShadowReport, ShadowRule, ShadowSample
from opensafe.policy.compare import deciding_ids, difference
from opensafe.policy.engine import Engine
from opensafe.policy.manifest import Bundle as LoadedBundle
from opensafe.policy.rejudge import JUDGED, judge_on_candidate
from opensafe.policy.reload import Loaded

#: Either role may start and stop a candidate.
SHADOWING: Final = frozenset({"operator", "reviewer"})
#: Decisions that may wait for the candidate; further ones are dropped.
BACKLOG: Final = 1000
#: Bytes of a bundle file, as the loader takes it, and the time that it has to arrive in.
_BUNDLE_MAX: Final = 16 << 20
_ARRIVAL_S: Final = 30.0
_SAMPLES: Final = 50
_RULES: Final = 256
#: Differences wait this long to be written, so that they cost the log one sync a second and not one each.
_WRITE_S: Final = 1.0

#: In the line of a decision with hits of rules in shadow. Arguments may look alike.
_IN_SHADOW: Final = b'"shadow":[{'

_log = structlog.get_logger()

Load = Callable[[bytes], Awaitable[Loaded]]


class _Running(msgspec.Struct):
    """The candidate under way, with its counts."""

    engine: Engine
    bundle: LoadedBundle
    principal: str
    started_us: int
    counts: Counter[str]
    transitions: Counter[str]
    rules: Counter[str]

    def report(self) -> Candidate:
        """As it stands."""
        return Candidate(
            revision=self.bundle.revision,
            digest=self.bundle.digest,
            key=self.bundle.key,
            started_by=self.principal,
            started_us=self.started_us,
            **self.counts,
            transitions=dict(sorted(self.transitions.items())),
            rules=dict(self.rules.most_common()),
        )


class Shadow:
    """Owns the candidate's engine and the thread that asks it. `watch` is the task that reads; `close` frees."""

    def __init__(self, log: AuditLog, load: Load) -> None:
        """`load` verifies a bundle, signature and all, and makes its engine; it keeps the work out of this process."""
        self._log = log
        self._load = load
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="shadow")
        self._running: _Running | None = None
        self._changing = asyncio.Lock()
        self._samples: deque[ShadowSample] = deque(maxlen=_SAMPLES)
        self._rules: dict[str, ShadowRule] = {}
        self._decisions = 0
        self._since_us = now_us()
        self._unwritten: list[ShadowRecord] = []
        self._some = asyncio.Event()

    async def start(self, principal: Principal, pieces: AsyncIterator[bytes]) -> Candidate:
        """Take a bundle in, verify it and let it judge along.

        Raises NotPermitted, Conflict (one runs already), LimitExceeded (too large, too slow), BundleRefused.
        """
        _require_role(principal)
        async with self._changing:
            if self._running is not None:
                revision = self._running.bundle.revision
                raise Conflict("a candidate runs in shadow already", value=revision, remedy="Stop it first.")
            loaded = await self._load(await _take_in(pieces))
            self._samples.clear()
            running = _Running(loaded.engine, loaded.bundle, principal.name, now_us(), Counter(), Counter(), Counter())
            try:
                await self._log.append(self._record("started", running, principal.name))
            except AuditError:
                loaded.engine.close()
                raise
            self._running = running
        return running.report()

    async def stop(self, principal: Principal) -> Candidate:
        """End it and return its last counts. Raises NotPermitted, Conflict (none runs)."""
        _require_role(principal)
        async with self._changing:
            if self._running is None:
                raise Conflict("no candidate runs in shadow")
            running, self._running = self._running, None
            await asyncio.get_running_loop().run_in_executor(self._thread, running.engine.close)
            await self._log.append(self._record("stopped", running, principal.name))
        return running.report()

    def report(self, principal: Principal) -> ShadowReport:
        """The candidate's counts and the rules in shadow. Raises NotPermitted."""
        _require_role(principal)
        return ShadowReport(
            since_us=self._since_us,
            decisions=self._decisions,
            candidate=self._running.report() if self._running else None,
            samples=tuple(self._samples),
            rules=tuple(sorted(self._rules.values(), key=lambda rule: (-rule.hits, rule.id))),
        )

    async def watch(self) -> None:
        """Look at every decision as it becomes durable; runs until cancelled, or until the log takes no more."""
        writing = asyncio.create_task(self._write())
        try:
            position = self._log.durable
            while True:
                try:
                    async for written in self._log.follow(position):
                        position = written.head.size
                        if written.kind == "decision":
                            await self._look(position, written)
                except AuditError:  # so far behind that the log forgot what comes next
                    if self._running is not None:
                        self._running.counts["dropped"] += self._log.durable - position
                    position = self._log.durable
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    async def close(self) -> None:
        """Write what waits, free engine and thread."""
        running, self._running = self._running, None
        if running is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, running.engine.close)
        self._thread.shutdown(wait=True)
        try:
            await self._flush()
        except AuditError as error:
            _log.error("differences of shadow are not on record", error=str(error))

    async def _look(self, position: int, written: Written) -> None:
        """Look at a decision, and decode it only where there is something to find in it."""
        running, late = self._running, self._log.durable - position > BACKLOG
        self._decisions += 1
        if running is not None and late:
            running.counts["dropped"] += 1
        if (running is None or late) and _IN_SHADOW not in written.line:
            return
        record = written.record
        if not isinstance(record, DecisionRecord):
            return
        self._count_rules(record)
        if running is None or late or record.purpose not in JUDGED:
            return
        try:
            new = await asyncio.get_running_loop().run_in_executor(
                self._thread, judge_on_candidate, running.engine, record
            )
        except Exception:  # noqa: BLE001 - a fault of ours here must not end the front
            _log.exception("shadow failed on a decision", decision_id=record.decision_id)
            running.counts["dropped"] += 1
            return
        if running is self._running:  # not stopped meanwhile, when its engine may have been closed under the question
            self._count(running, position - 1, record, new)

    def _count(self, running: _Running, index: int, record: DecisionRecord, new: Decision) -> None:
        running.counts["evaluated"] += 1
        running.counts["no_verdict"] += new.data_version == ""
        change = difference(index, record, new)
        if change is None:
            running.counts["same"] += 1
            running.counts["other_rules"] += deciding_ids(new) != deciding_ids(record.result)
            return
        running.counts["differed"] += 1
        running.transitions[f"{change.old}>{change.new}"] += 1
        running.rules.update(deciding_ids(new))
        self._samples.append(
            ShadowSample(
                decision_id=change.decision_id,
                time_us=change.time_us,
                principal=change.principal,
                tool=change.tool,
                enforced=change.old,
                candidate=change.new,
                rules=change.rules,
            )
        )
        if len(self._unwritten) < BACKLOG:
            self._unwritten.append(
                ShadowRecord(
                    time_us=now_us(),
                    decision_id=change.decision_id,
                    session_id=change.session_id,
                    candidate=Bundle(revision=running.bundle.revision, digest=running.bundle.digest),
                    enforced=change.old,
                    action=change.new,
                    rules=change.rules,
                )
            )
            self._some.set()

    def _count_rules(self, record: DecisionRecord) -> None:
        """Hits of rules in shadow; their number is bounded because a site names them, and capped all the same."""
        for hit in {hit.id: hit for hit in record.result.shadow}.values():
            known = self._rules.get(hit.id)
            if known is None and len(self._rules) >= _RULES:
                continue
            stronger = hit.action is not Action.ALLOW and record.result.action not in (hit.action, Action.BLOCK)
            self._rules[hit.id] = ShadowRule(
                id=hit.id,
                hits=(known.hits if known else 0) + 1,
                would_change=(known.would_change if known else 0) + stronger,
                last_decision_id=record.decision_id,
                last_reason=hit.reason,
            )

    async def _write(self) -> None:
        while True:
            await self._some.wait()
            await asyncio.sleep(_WRITE_S)
            await self._flush()

    async def _flush(self) -> None:
        self._some.clear()
        records, self._unwritten = self._unwritten, []
        await asyncio.gather(*(self._log.append(record) for record in records))

    @staticmethod
    def _record(state: str, running: _Running, principal: str) -> CandidateRecord:
        return CandidateRecord(
            time_us=now_us(),
            state=state,
            candidate=Bundle(revision=running.bundle.revision, digest=running.bundle.digest),
            principal=principal,
            evaluated=running.counts["evaluated"],
            differed=running.counts["differed"],
            dropped=running.counts["dropped"],
        )


async def _take_in(pieces: AsyncIterator[bytes]) -> bytes:
    content = bytearray()
    try:
        async with asyncio.timeout(_ARRIVAL_S):
            async for piece in pieces:
                content += piece
                if len(content) > _BUNDLE_MAX:
                    raise LimitExceeded("the bundle is too large", value=len(content), limit=f"{_BUNDLE_MAX} bytes")
    except TimeoutError as error:
        raise LimitExceeded("the bundle did not arrive in time", limit=f"{_ARRIVAL_S:.0f} s") from error
    return bytes(content)


def _require_role(principal: Principal) -> None:
    if SHADOWING.isdisjoint(principal.roles):
        raise NotPermitted(
            "shadow needs a role",
            value=", ".join(principal.roles),
            limit=" or ".join(sorted(SHADOWING)),
            remedy="Use the socket of a principal with that role.",
        )
