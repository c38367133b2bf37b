"""`gate`, `await_review` and `execute`: the daemon's word on the call, a person's, and the run.

The call is sent once, in `gate`, with its id from the checkpoint. The daemon runs it as soon as it is allowed, whoever
listens; the states after it follow what happens, and send the same again where their process did not send it itself.
"""

from langgraph.types import interrupt

from opensafe.client import Verdict
from opensafe.model.decision import Action
from opensafe.model.outcome import OutcomeKind

from . import told
from .calls import Finished
from .door import Door
from .state import RunState, Update, leave
from .table import Transition


async def gate(state: RunState, door: Door) -> Update:
    """Send the call; the verdict. Raises OpenSafeError."""
    verdict = await door.calls.send(state, wait=True)
    if verdict.action is Action.REVIEW:
        line = f"{verdict.review_id}: {told.deciding(verdict)}"
        return leave(Transition.REVIEW, line, review_id=verdict.review_id, failures=0)
    if verdict.action is Action.ALLOW:
        return leave(Transition.ALLOW, told.deciding(verdict), failures=0)
    return await _refused(door)


async def await_review(state: RunState, door: Door) -> Update:
    """Wait for the reviewer, or interrupt the graph until somebody resumes it. Raises OpenSafeError.

    What the graph is resumed with approves nothing: the daemon is asked in any case.
    """
    calls, call = door.calls, state["queue"][0]
    if not door.await_reviews:
        await calls.close()
        interrupt({"review_id": state["review_id"], "call_id": call["call_id"], "tool": call["tool"]})
    said: Verdict | Finished
    if door.await_reviews and calls.holds(call):
        said = await calls.word()
    else:
        said = await calls.send(state, wait=door.await_reviews)
        if said.action is Action.REVIEW:
            said = await calls.word()
    if isinstance(said, Finished):
        if said.outcome.kind is OutcomeKind.REVIEW_PENDING:
            return leave(Transition.PENDING, state["review_id"])
        return _told(said)
    if said.action is Action.ALLOW:
        return leave(Transition.APPROVED, told.deciding(said), failures=0)
    return await _refused(door)


async def execute(state: RunState, door: Door) -> Update:
    """Follow the call to its end. Raises OpenSafeError."""
    if not door.calls.holds(state["queue"][0]):
        await door.calls.send(state, wait=True)
    finished = await door.calls.finish(door.limits.output_bytes)
    await door.calls.close()
    return leave(
        Transition.ENDED, told.in_short(finished.outcome), result=told.of_outcome(finished), failures=0, review_id=""
    )


async def _refused(door: Door) -> Update:
    finished = await door.calls.finish(door.limits.output_bytes)
    await door.calls.close()
    return _told(finished)


def _told(finished: Finished) -> Update:
    line = ", ".join(part for part in (told.in_short(finished.outcome), told.deciding(finished.verdict)) if part)
    return leave(Transition.REFUSE, line, result=told.of_outcome(finished), failures=0, review_id="")
