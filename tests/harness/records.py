"""Records made by hand, with all that such a record has."""

from opensafe.model import records
from opensafe.model.calls import Principal
from opensafe.model.decision import Action, Decision, Grant, RuleHit, Severity
from opensafe.model.facts import Command
from opensafe.model.policy_input import CallInput, PolicyInput, SessionInput

TIME_US = 1_790_000_000_123_456
BUNDLE = records.Bundle(revision="r1", digest="de" * 32)


def decision(action=Action.ALLOW, purpose="call", tool="Bash", reason="why", runtime=None, **more):
    hit = RuleHit(id="command.network", severity=Severity.HIGH, action=action, reason=reason)
    question = PolicyInput(
        id="dec-1",
        kind="call",
        call=CallInput(
            id="call-1",
            tool=tool,
            arguments={"command": "ls"},
            digest="00",
            commands=(Command(program="ls", argv=("ls",)),),
        ),
        principal=Principal(name="agent"),
        session=SessionInput(id="ses-1", agent="tester"),
        runtime=runtime,
    )
    rules = (hit,) if action is not Action.ALLOW else ()
    fields = {
        "time_us": TIME_US,
        "decision_id": "dec-1",
        "purpose": purpose,
        "principal": "agent",
        "session_id": "ses-1",
        "call_id": "call-1",
        "sandbox_id": "sb-1",
        "exec_id": "ex-1",
        "bundles": {"opensafe": BUNDLE},
        "path": "opensafe/gate/call",
        "input": question,
        "result": Decision(action=action, rules=rules, grant=Grant(), id="dec-1", data_version="r1"),
        "subject": "11",
        "metrics": {},
        "trace_id": "f" * 32,
        "span_id": "e" * 16,
    }
    return records.DecisionRecord(**fields | more)


def refusal(number, session="ses-1", message="no", **more):
    fields = {"principal": "agent", "call_id": f"call-{number}", "tool": "Bush", "reason": "UNKNOWN_TOOL"}
    return records.RefusalRecord(time_us=number * 1_000_000, session_id=session, message=message, **fields | more)
