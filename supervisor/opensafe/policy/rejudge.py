"""One recorded decision judged again: the mechanism behind `audit verify --replay`, `policy replay` and shadow.

Of the record only the sealed arguments are trusted to say what the call is: they are normalised anew with the class
tables and the tools of the bundle that judges. Principal, session, budget, approval, whether standard input was
streamed, what was asked of the run, who in the image has the user's name, the digests of a tool's description, and what
files hold that calls before wrote (`recalled`) don't show in the arguments and are taken as recorded.
"""

from typing import Final

import msgspec

from opensafe.errors import PolicyError, RequestError
from opensafe.model.decision import Action, Decision, Grant, RuleHit, Severity
from opensafe.model.facts import Facts
from opensafe.model.records import DecisionRecord
from opensafe.model.sandbox import Launch
from opensafe.normalize.facts import with_recorded

from .engine import Engine
from .subject import build_launch, call_input

#: Purposes of records that can be judged again.
JUDGED: Final = frozenset({"call", "permit", "query", "sandbox", "runtime"})
#: Purposes whose question holds no arguments to read anew, and where it is asked.
_NO_CALL: Final = {"sandbox": "gate/sandbox", "runtime": "gate/runtime"}


class Again(msgspec.Struct, frozen=True, kw_only=True):
    """The second verdict, where it was asked for, and what an allowed call would run (None of anything else)."""

    entrypoint: str
    decision: Decision
    launch: Launch | None = None


def judge_again(engine: Engine, record: DecisionRecord) -> Again:
    """Judge `record` as it stands on the bundle of `engine`. Raises RequestError, EvaluationFailed, ValueError."""
    asked = record.input.call
    if record.purpose in _NO_CALL:  # by the purpose: a forged `kind` must not keep facts from being read anew
        entrypoint = _NO_CALL[record.purpose]
        return Again(entrypoint=entrypoint, decision=engine.evaluate(entrypoint, record.input))
    registry = engine.registry
    call = registry.reopen(asked.id, asked.tool, asked.arguments)
    facts = registry.facts(call, engine.tables, asked.user)
    if asked.recalled:
        recorded = Facts(**{name: getattr(asked, name) for name in Facts.__struct_fields__})
        facts = with_recorded(facts, recorded, engine.tables)
    again = call_input(
        call,
        facts,
        registry.spec(asked.tool),
        stdin=asked.stdin,
        asked=asked.asked,
        user=asked.user,
        description_digest=asked.description_digest,
        pinned_digest=asked.pinned_digest,
    )
    question = msgspec.structs.replace(record.input, call=again)
    entrypoint = registry.entrypoint(asked.tool)
    decision = engine.evaluate(entrypoint, question)
    launch = None
    if decision.action is Action.ALLOW and record.purpose == "call":
        launch = build_launch(
            registry, call, decision.grant, record.sandbox_id, record.exec_id, asked.asked, asked.user
        )
    return Again(entrypoint=entrypoint, decision=decision, launch=launch)


def judge_on_candidate(engine: Engine, record: DecisionRecord) -> Decision:
    """What another bundle than the record's would have said; no verdict is a block, as it would be in the daemon.

    An approval is taken for one given on that bundle: otherwise every approved call would differ.
    """
    if record.input.approval is not None:
        approval = msgspec.structs.replace(record.input.approval, revision=engine.revision)
        record = msgspec.structs.replace(record, input=msgspec.structs.replace(record.input, approval=approval))
    try:
        return judge_again(engine, record).decision
    except RequestError as error:
        return _blocked(record, f"the request would be refused ({error.reason}): {error}")
    except (PolicyError, ValueError) as error:
        return _blocked(record, f"policy reached no verdict: {error}")


def _blocked(record: DecisionRecord, why: str) -> Decision:
    hit = RuleHit(id="default.deny", severity=Severity.HIGH, action=Action.BLOCK, reason=why)
    return Decision(action=Action.BLOCK, rules=(hit,), grant=Grant(), id=record.decision_id, data_version="")
