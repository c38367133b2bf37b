"""What is kept of one principal's records, folded as they come. Every part has a bound: agents choose how much comes.

Times are the records' own, in microseconds since the epoch; the last minutes are counted back from the clock given.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from opensafe.model.decision import GRAVITY, Action, RuleHit
from opensafe.model.outcome import Outcome
from opensafe.model.records import DecisionRecord, OutcomeRecord, Record, ReviewRecord, SessionRecord

from .coverage import Fired

#: The window that rules are counted in, and its pieces.
WINDOW_S: Final = 300
PIECES: Final = 30
_PIECE_US: Final = WINDOW_S * 10**6 // PIECES
RULES_MAX: Final = 256
SESSIONS_MAX: Final = 200
CALLS_MAX: Final = 200
#: Characters of a target, of a reason: what is longer stands in the record itself.
_TEXT_MAX: Final = 400


class Call(msgspec.Struct, kw_only=True):
    """A call, as far as it has come. target: what it is about, in one line. outcome: None while it goes on."""

    index: int
    time_us: int
    decision_id: str
    session_id: str
    call_id: str
    principal: str
    agent: str
    tool: str
    target: str
    action: Action
    rules: tuple[RuleHit, ...]
    purpose: str
    evaluation_us: int
    review_id: str = ""
    outcome: Outcome | None = None

    @property
    def severity(self) -> str:
        """The gravest of the rules that decided."""
        return max((hit.severity for hit in self.rules), key=GRAVITY.index, default=GRAVITY[0])


class Session(msgspec.Struct, kw_only=True):
    """A session: its latest calls, how many there were, and by verdict."""

    id: str
    principal: str = ""
    agent: str = ""
    trace_id: str = ""
    began_us: int = 0
    last_us: int = 0
    closed: bool = False
    calls: deque[Call] = msgspec.field(default_factory=lambda: deque(maxlen=CALLS_MAX))
    counts: dict[str, int] = msgspec.field(default_factory=dict)


class RuleCount(msgspec.Struct, frozen=True, kw_only=True):
    """A rule's hits within the window: by piece, oldest first, and in all."""

    id: str
    severity: str
    hits: int
    pieces: tuple[int, ...]


class Board:
    """Fold records in with `take`; read what they came to."""

    def __init__(self) -> None:
        self.next = 0
        self.fired = Fired()
        self.sessions: OrderedDict[str, Session] = OrderedDict()
        self.calls: deque[Call] = deque(maxlen=CALLS_MAX)
        self.violation: Call | None = None
        self._rules: OrderedDict[str, tuple[str, dict[int, int]]] = OrderedDict()
        self._runs: dict[int, int] = {}

    def take(self, index: int, record: Record) -> None:
        """Fold one record in; one that was folded before is passed over."""
        if index < self.next:
            return
        self.next = index + 1
        match record:
            case DecisionRecord():
                self.fired.take(index, record)
                self._decided(index, record)
            case OutcomeRecord():
                self._ended(record)
            case SessionRecord():
                self._session(record)
            case ReviewRecord():
                self._session_of(record.session_id).last_us = record.time_us
            case _:  # shown by the screens that ask for it
                pass

    def rules(self, now_us: int) -> list[RuleCount]:
        """Those that stopped or parked something within the window, most hits first."""
        last = now_us // _PIECE_US
        found = []
        for rule, (severity, counts) in self._rules.items():
            pieces = tuple(counts.get(last - PIECES + 1 + number, 0) for number in range(PIECES))
            if any(pieces):
                found.append(RuleCount(id=rule, severity=severity, hits=sum(pieces), pieces=pieces))
        return sorted(found, key=lambda one: (-one.hits, one.id))

    def runs_per_s(self, now_us: int) -> float:
        """Calls that ended having run, a second, over the last ten whole seconds."""
        second = now_us // 10**6
        return sum(self._runs.get(second - back, 0) for back in range(1, 11)) / 10

    def active(self, count: int) -> list[Session]:
        """The sessions in which something happened last, the latest first; closed ones behind the others."""
        return sorted(self.sessions.values(), key=lambda one: (one.closed, -one.last_us))[:count]

    def _decided(self, index: int, record: DecisionRecord) -> None:
        decision = record.result
        if decision.action is not Action.ALLOW:
            self._count(record.time_us, decision.deciding())
        if record.purpose not in ("call", "permit", "query", "runtime"):
            return
        session = self._session_of(record.session_id)
        session.principal = session.principal or record.principal
        session.last_us = record.time_us
        call = called(index, record, session.agent)
        session.calls.append(call)
        self.calls.append(call)
        if record.input.approval is None:  # an approved call is the parked one, judged again
            session.counts[decision.action] = session.counts.get(decision.action, 0) + 1
        if decision.action is Action.BLOCK:
            self.violation = call

    def _count(self, time_us: int, hits: Iterable[RuleHit]) -> None:
        piece = time_us // _PIECE_US
        for rule, severity in {hit.id: hit.severity for hit in hits}.items():
            _, counts = self._rules.pop(rule, (severity, {}))
            counts[piece] = counts.get(piece, 0) + 1
            for old in [one for one in counts if one <= piece - PIECES]:
                del counts[old]
            self._rules[rule] = (severity, counts)
        while len(self._rules) > RULES_MAX:
            self._rules.popitem(last=False)

    def _ended(self, record: OutcomeRecord) -> None:
        session = self._session_of(record.session_id)
        session.last_us = record.time_us
        if record.outcome.run_ns:
            second = record.time_us // 10**6
            self._runs[second] = self._runs.get(second, 0) + 1
            for old in [one for one in self._runs if one < second - 15]:
                del self._runs[old]
        for call in reversed(session.calls):
            if call.call_id == record.call_id and call.purpose != "runtime":
                call.outcome = record.outcome
                return

    def _session(self, record: SessionRecord) -> None:
        session = self._session_of(record.session_id)
        session.principal, session.last_us = record.principal, record.time_us
        if record.state == "closed":
            session.closed = True
        else:
            session.agent, session.trace_id, session.began_us = record.agent, record.trace_id, record.time_us

    def _session_of(self, name: str) -> Session:
        """Known or new; the one that was longest without anything new makes room."""
        session = self.sessions.pop(name, None) or Session(id=name)
        self.sessions[name] = session
        while len(self.sessions) > SESSIONS_MAX:
            self.sessions.popitem(last=False)
        return session


def called(index: int, record: DecisionRecord, agent: str = "") -> Call:
    """The call that a decision is about."""
    return Call(
        index=index,
        time_us=record.time_us,
        decision_id=record.decision_id,
        session_id=record.session_id,
        call_id=record.call_id,
        principal=record.principal,
        agent=agent or record.input.session.agent,
        tool=record.input.call.tool,
        target=target(record),
        action=record.result.action,
        rules=record.result.deciding(),
        purpose=record.purpose,
        evaluation_us=record.metrics.get("timer_rego_query_eval_ns", 0) // 1000,
        review_id=record.review_id,
    )


def target(record: DecisionRecord) -> str:
    """What a call is about: its command, path, URL or the like, else its arguments as JSON; cut."""
    if record.purpose == "runtime" and record.input.runtime is not None:
        return (record.input.runtime.path or record.input.runtime.syscall)[:_TEXT_MAX]
    return about(record.input.call.arguments)


def about(arguments: dict[str, Any]) -> str:
    """The command, path, URL or the like among a call's arguments, else all of them as JSON; cut."""
    for name in ("command", "path", "file_path", "url", "pattern", "argv"):
        value = arguments.get(name)
        if isinstance(value, str):
            return value[:_TEXT_MAX]
        if isinstance(value, list):
            return " ".join(str(one) for one in value)[:_TEXT_MAX]
    return msgspec.json.encode(arguments).decode()[:_TEXT_MAX]
