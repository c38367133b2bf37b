"""`observe`: tell the model how its call went, and see whether the run may go on.

A ban, a budget of the daemon's that is used up and a quarantine deny whatever comes next, and a rule that denied often
enough is not argued with.
"""

from collections.abc import Sequence
from typing import Final

from langchain_core.messages import AnyMessage, ToolMessage

from . import told
from .door import Door
from .planning import in_words
from .state import Call, EndKind, Result, RunState, Update, leave, stop
from .table import Transition

_BAN: Final = "caller.ban.deny"
_QUARANTINE: Final = "session.denials.quarantine"
_BUDGETS: Final = "budget."


async def observe(state: RunState, door: Door) -> Update:
    """Answer the first queued call, and those after it that were not to be sent."""
    limits = door.limits
    call, *queue = state["queue"]
    result = told.of_malformed(call["error"]) if call["error"] else state["result"]
    assert result is not None  # noqa: S101 - every transition to here brings one, or the call has an error
    messages: list[AnyMessage] = [_message(call, result, state["notes"])]
    mistakes = state["mistakes"] + 1 if result["status"] == "refused" else 0
    while queue and queue[0]["error"]:
        messages.append(_message(queue[0], told.of_malformed(queue[0]["error"]), ()))
        mistakes += 1
        queue = queue[1:]
    denials = dict(state["denials"])
    for rule in dict.fromkeys(result["rules"]):
        denials[rule] = denials.get(rule, 0) + 1
    seen: Update = {
        "messages": messages,
        "queue": queue,
        "result": None,
        "notes": [],
        "denials": denials,
        "mistakes": mistakes,
    }
    if end := _final(result["rules"]):
        return stop(*end, **seen)
    worst = max(result["rules"], key=lambda rule: denials[rule], default="")
    if worst and denials[worst] >= limits.denials:
        return stop(EndKind.DENIED, f"{worst} denied {denials[worst]} times", **seen)
    if mistakes >= limits.mistakes:
        return stop(EndKind.MISTAKES, f"{mistakes} calls in a row could not be judged", **seen)
    if queue:
        return leave(Transition.NEXT, f"{result['status']}; {in_words(queue[0])}", **seen)
    return leave(Transition.RESULT, result["status"], **seen)


def _message(call: Call, result: Result, notes: Sequence[str]) -> ToolMessage:
    return ToolMessage(
        content="\n".join((*notes, result["text"])),
        tool_call_id=call["answers"],
        name=call["tool"] or None,
        status="success" if result["status"] == "ran" else "error",
    )


def _final(rules: Sequence[str]) -> tuple[EndKind, str] | None:
    """The end that such rules mean, and why, if they mean one."""
    for rule in rules:
        if rule == _BAN:
            return EndKind.BANNED, "the agent or its principal is banned"
        if rule == _QUARANTINE:
            return EndKind.DENIED, f"{rule}: the session was denied too much"
        if rule.startswith(_BUDGETS):
            return EndKind.BUDGET, f"{rule}: the daemon's budget is used up"
    return None
