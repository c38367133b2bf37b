"""The check before every sandbox and every start: does a decision on record allow exactly this, and for the first time?

The warden reads the record itself, through its own descriptor of a file that nobody can change. What it can't
know is whether the front that wrote the record was honest; `audit verify --replay` judges that afterwards.
"""

from typing import Protocol

import msgspec

from ..errors import AuditError, WardenRefused
from ..model.calls import Principal
from ..model.canonical import leaf_hash
from ..model.policy_input import BudgetInput, SessionInput
from ..model.sandbox import Launch
from . import feed
from .checkpoints import Checkpoints
from .ledger import Ledger
from .protocol import RecordRef
from .segments import Segments

_REMEDY = "Decide the call first; each decision allows one operation, once."


class Subject(Protocol):
    """What a decision can be about: SandboxSpec and Launch."""

    def subject_digest(self) -> str:
        """Digest that the decision record carries."""


class _Grant(msgspec.Struct, frozen=True):
    network: tuple[str, ...] = ()
    programs: str | tuple[str, ...] = ()
    users: tuple[str, ...] = ()


class _Result(msgspec.Struct, frozen=True):
    action: str
    grant: _Grant = _Grant()


class _Call(msgspec.Struct, frozen=True):
    tool: str = ""
    digest: str = ""


class _Asked(msgspec.Struct, frozen=True):
    call: _Call = _Call()
    session: SessionInput = SessionInput(id="")
    principal: Principal = Principal(name="")
    budget: BudgetInput = BudgetInput()


class Decided(msgspec.Struct, frozen=True):
    """The fields of a decision record that matter here. Those that only the monitor is told have defaults."""

    kind: str
    result: _Result
    subject: str | None = None
    decision_id: str = ""
    session_id: str = ""
    call_id: str = ""
    trace_id: str = ""
    effects: tuple[str, ...] = ()
    input: _Asked = _Asked()

    def announcement(self, launch: Launch, programs: tuple[str, ...] | None) -> feed.Call:
        """What the monitor is told of the start that this decision allows; `programs` as it was resolved."""
        return feed.Call(
            exec_id=launch.exec_id,
            decision_id=self.decision_id,
            call_id=self.call_id,
            session_id=self.session_id,
            tool=self.input.call.tool,
            digest=self.input.call.digest,
            trace_id=self.trace_id,
            principal=self.input.principal,
            agent=self.input.session.agent,
            profile=launch.profile,
            programs=programs,
            network=self.result.grant.network,
            session=self.input.session,
            budget=self.input.budget,
            effects=self.effects,
        )


class Decisions:
    """Decisions on record, each good for one use."""

    def __init__(self, segments: Segments, ledger: Ledger, checkpoints: Checkpoints) -> None:
        self._segments = segments
        self._ledger = ledger
        self._checkpoints = checkpoints

    async def settled(self, ref: RecordRef) -> None:
        """Return when the record is on disk; the front may send its place before it is. Raises WardenRefused."""
        try:
            await self._segments.durable(ref)
        except AuditError as error:
            raise WardenRefused(f"no decision: {error}", remedy=_REMEDY) from error

    def check(self, ref: RecordRef, subject: Subject) -> Decided:
        """The decision, when it allows the subject and was never used.

        The caller writes the ledger entry before anything else can run, which is what uses the record up. Raises
        WardenRefused, and AuditError where the log is not vouched for any more.
        """
        self._checkpoints.require()
        try:
            line = self._segments.line(ref.segment, ref.offset, ref.length)
        except AuditError as error:
            raise WardenRefused(f"no decision: {error}", remedy=_REMEDY) from error
        if leaf_hash(line) != ref.leaf:
            raise WardenRefused("the record there has another hash", value=ref.leaf, remedy=_REMEDY)
        try:
            decision = msgspec.json.decode(line, type=Decided)
        except msgspec.DecodeError as error:
            raise WardenRefused(f"the record is no decision ({error})", value=ref.leaf, remedy=_REMEDY) from error
        if decision.kind != "decision" or decision.result.action != "allow":
            raise WardenRefused(
                "the record does not allow", value=f"{decision.kind}, {decision.result.action}", remedy=_REMEDY
            )
        digest = subject.subject_digest()
        if decision.subject != digest:
            raise WardenRefused(
                "the record allows something else", value=digest, limit=decision.subject, remedy=_REMEDY
            )
        if bytes.fromhex(ref.leaf) in self._ledger.used:
            raise WardenRefused("the decision was used before", value=ref.leaf, remedy=_REMEDY)
        return decision
