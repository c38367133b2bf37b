"""One session folded from its records: its calls one by one, and what they came to. Every part has a bound.

What a call names counts as touched where policy let the call run, else as stopped (once a call). A program can do more
than its call tells: the sandbox binds it, and these are the facts that the verdict was made from.
"""

from collections import OrderedDict, deque
from typing import Final

import msgspec

from opensafe.model.decision import Action
from opensafe.model.facts import HostFact, PathFact
from opensafe.model.history import taints_after
from opensafe.model.outcome import NEVER_EXECUTED
from opensafe.model.records import (
    ConnectionRecord,
    DecisionRecord,
    OutcomeRecord,
    Record,
    RefusalRecord,
    ReviewRecord,
    SandboxRecord,
    SessionRecord,
    ShadowRecord,
    UsageRecord,
)
from opensafe.model.usage import Usage

from .board import Call, called

CALLS_MAX: Final = 1000
FILES_MAX: Final = 500
PLACES_MAX: Final = 500
SANDBOXES_MAX: Final = 100
_OF_STEP_MAX: Final = 16


class Step(msgspec.Struct, kw_only=True):
    """A line of the trace: a call with its verdict, or a request that never came before policy (`refusal`).

    review: what became of a parked call, the last word of it. approver: of a call that was judged again. shadow: what
    the candidate in shadow would have said. records: indices of all that is on record of it.
    """

    index: int
    time_us: int
    call: Call | None = None
    refusal: RefusalRecord | None = None
    review: ReviewRecord | None = None
    approver: str = ""
    shadow: str = ""
    effects: tuple[str, ...] = ()
    records: list[int]


class File(msgspec.Struct, kw_only=True):
    """A path that calls named, and how often to what end. index: of the last decision about it."""

    path: str
    classes: tuple[str, ...]
    index: int
    read: int = 0
    written: int = 0
    deleted: int = 0
    stopped: int = 0


class Place(msgspec.Struct, kw_only=True):
    """A peer on the network: calls that named it, connections and questions let out or refused, bytes.

    port: None where none is known. reason: of the last refusal.
    """

    name: str
    port: int | None
    layers: tuple[str, ...] = ()
    named: int = 0
    allowed: int = 0
    refused: int = 0
    sent: int = 0
    received: int = 0
    reason: str = ""


class Sandbox(msgspec.Struct, kw_only=True):
    """A sandbox of the session, as it is now."""

    id: str
    state: str = ""
    template: str = ""
    network: str = ""
    cause: str = ""
    began_us: int = 0
    last_us: int = 0


class Trace:
    """Fold records in with `take`, in order; read what they came to.

    began_us: 0 where the session's beginning was not read. older: records before this index were not read, 0 where all
    were. budget: used at the last decision, of the session and of its principal in a day, and the limits of its own.
    """

    def __init__(self, session_id: str, older: int = 0) -> None:
        self.id = session_id
        self.next = 0
        self.principal = self.agent = self.trace_id = self.conversation = ""
        self.began_us = self.last_us = 0
        self.closed = False
        self.steps: deque[Step] = deque()
        self.counts = dict.fromkeys(map(str, Action), 0)
        self.files: OrderedDict[str, File] = OrderedDict()
        self.places: OrderedDict[tuple[str, int | None], Place] = OrderedDict()
        self.sandboxes: OrderedDict[str, Sandbox] = OrderedDict()
        self.taints: tuple[str, ...] = ()
        self.limits: dict[str, int] = {}
        self.of_principal: dict[str, int] = {}
        self._older = older
        self._used: dict[str, int] = dict(Usage().as_budget())
        self._since = Usage()

    @property
    def known(self) -> bool:
        """Whether there was any record of it."""
        return self.next > 0

    @property
    def older(self) -> int:
        """Steps before this index are not held, though there are such; 0 where there are none."""
        return self._older and (self.steps[0].index if self.steps else self._older)

    @property
    def used(self) -> dict[str, int]:
        """Under the keys of BudgetInput: as policy saw it last, and what came since."""
        return {name: self._used.get(name, 0) + more for name, more in self._since.as_budget().items()}

    def step(self, index: int) -> Step | None:
        """The one that was decided or refused by that record."""
        return next((one for one in reversed(self.steps) if one.index == index), None)

    def take(self, index: int, record: Record) -> None:
        """Fold one record of the session in; one that was folded before is passed over."""
        if index < self.next:
            return
        self.next = index + 1
        self.last_us = getattr(record, "time_us", self.last_us)
        match record:
            case DecisionRecord():
                self._decided(index, record)
            case RefusalRecord():
                self._add(Step(index=index, time_us=record.time_us, refusal=record, records=[index]))
            case OutcomeRecord():
                self._ended(index, record)
            case ReviewRecord() | ShadowRecord():
                self._said(index, record)
            case ConnectionRecord():
                self._connected(record)
            case UsageRecord():
                self._since = self._since.plus(record.usage)
            case SandboxRecord():
                self._sandbox(record)
            case SessionRecord():
                self._session(record)

    def _add(self, step: Step) -> None:
        self.steps.append(step)
        if len(self.steps) > CALLS_MAX:
            self._older = self.steps.popleft().index + 1

    def _decided(self, index: int, record: DecisionRecord) -> None:
        question, approval = record.input, record.input.approval
        call = called(index, record, self.agent)
        step = Step(index=index, time_us=record.time_us, call=call, effects=record.effects, records=[index])
        step.approver = approval.approver if approval else ""
        self._add(step)
        self.principal, self.agent = self.principal or record.principal, call.agent
        self.taints, self.limits = question.session.taints, question.budget.limits
        self._used, self.of_principal = question.budget.usage, question.budget.principal
        self._since = Usage(calls=int(record.counted))
        if approval is None and record.purpose != "sandbox":
            self.counts[call.action] += 1
        facts = question.call
        if call.action is Action.ALLOW and record.purpose != "query":
            for paths, end in ((facts.reads, "read"), (facts.writes, "written"), (facts.deletes, "deleted")):
                for path in paths:
                    self._named_file(index, path, end)
        else:
            for path in {one.path: one for one in (*facts.reads, *facts.writes, *facts.deletes)}.values():
                self._named_file(index, path, "stopped")
        for host in facts.hosts:
            self._named_host(host)

    def _ended(self, index: int, record: OutcomeRecord) -> None:
        if record.usage is not None:
            self._since = self._since.plus(record.usage)
        for step in reversed(self.steps):
            call = step.call
            if call is not None and call.decision_id == record.decision_id:
                call.outcome = record.outcome
                _note(step, index)
                if record.outcome.kind not in NEVER_EXECUTED:
                    self.taints = taints_after(self.taints, step.effects)
                return

    def _said(self, index: int, record: ReviewRecord | ShadowRecord) -> None:
        for step in reversed(self.steps):
            call = step.call
            if call is None:
                continue
            if isinstance(record, ReviewRecord) and call.review_id == record.review_id:
                step.review = record
            elif isinstance(record, ShadowRecord) and call.decision_id == record.decision_id:
                step.shadow = record.action
            else:
                continue
            _note(step, index)
            return

    def _named_file(self, index: int, fact: PathFact, end: str) -> None:
        file = self.files.pop(fact.path, None)
        if file is None:
            classes = tuple(name for name, holds in fact.classes.items() if holds)
            file = File(path=fact.path, classes=classes, index=index)
        file.index = index
        setattr(file, end, getattr(file, end) + 1)
        self.files[fact.path] = file
        while len(self.files) > FILES_MAX:
            self.files.popitem(last=False)

    def _named_host(self, fact: HostFact) -> None:
        self._place(fact.name, fact.port).named += 1

    def _connected(self, record: ConnectionRecord) -> None:
        place = self._place(record.name or record.address, record.port)
        if record.layer not in place.layers:
            place.layers += (record.layer,)
        if record.state == "allowed":
            place.allowed += record.count
        elif record.state == "refused":
            place.refused += record.count
            place.reason = record.reason or ", ".join(record.rules)
        place.sent += record.sent
        place.received += record.received
        if (usage := record.usage) is not None:
            self._since = self._since.plus(usage)

    def _place(self, name: str, port: int | None) -> Place:
        place = self.places.pop((name, port), None) or Place(name=name, port=port)
        self.places[name, port] = place
        while len(self.places) > PLACES_MAX:
            self.places.popitem(last=False)
        return place

    def _sandbox(self, record: SandboxRecord) -> None:
        one = self.sandboxes.setdefault(record.sandbox_id, Sandbox(id=record.sandbox_id, began_us=record.time_us))
        one.state, one.last_us, one.cause = record.state, record.time_us, record.cause or one.cause
        one.template, one.network = record.template or one.template, record.network or one.network
        while len(self.sandboxes) > SANDBOXES_MAX:
            self.sandboxes.popitem(last=False)

    def _session(self, record: SessionRecord) -> None:
        self.principal = record.principal
        if record.state == "closed":
            self.closed = True
            return
        self.agent, self.trace_id, self.conversation = record.agent, record.trace_id, record.conversation_id
        self.began_us = record.time_us
        self.limits = record.limits.as_budget()


def _note(step: Step, index: int) -> None:
    """Its records are kept in mind, the first and the last of very many."""
    step.records.append(index)
    if len(step.records) > _OF_STEP_MAX:
        del step.records[1]
