"""`retry`, `abort` and `done`: what may pass is waited out, and what a run made ends with it."""

import asyncio
import random
from typing import Final

from opensafe.errors import OpenSafeError

from . import told
from .door import Door
from .faults import backoff
from .state import EndKind, Result, RunState, Update, leave, stop
from .table import Transition

_REPLACED: Final = "The sandbox was lost. A new one took its place; its workspace is empty."


async def retry(state: RunState, door: Door) -> Update:
    """Wait, longer each time, and go back to the step that failed. Raises OpenSafeError of a new sandbox."""
    fault = state["fault"]
    assert fault is not None  # noqa: S101 - every transition to here brings one
    failures, policy = state["failures"], backoff(door.limits, fault["kind"])
    if failures > policy.attempts:
        if fault["kind"] == "crowded":  # less, or something else, may still fit
            result = Result(status="refused", text=f"Nothing was executed. {fault['text']}", rules=[])
            return leave(Transition.TELL, fault["text"], fault=None, result=result, failures=0)
        return stop(EndKind.FAILED, f"given up after {failures} failures: {fault['text']}")
    pause = policy.pause(failures) * random.uniform(0.5, 1)  # noqa: S311 - spreads clients, guards nothing
    await asyncio.sleep(pause)
    if fault["kind"] == "model":
        return leave(Transition.ASK_AGAIN, f"after {pause:.1f} s", fault=None)
    if fault["kind"] != "sandbox":
        return leave(Transition.SEND_AGAIN, f"after {pause:.1f} s", fault=None)
    if not state["owned"]:
        return stop(EndKind.FAILED, fault["text"])
    made = await door.client.create_sandbox(state["session_id"], door.template)
    line = f"in the new sandbox {made.sandbox_id}"
    notes = [*state["notes"], _REPLACED]
    return leave(Transition.SEND_AGAIN, line, fault=None, sandbox_id=made.sandbox_id, notes=notes)


async def abort(state: RunState, door: Door) -> Update:
    """End what is under way. Calls that are still queued are never sent."""
    end = state["end"]
    reason = f"{end['kind']}: {end['text']}" if end is not None else ""
    return leave(Transition.END, reason + await _end(state, door), queue=[])


async def done(state: RunState, door: Door) -> Update:
    """The model answered."""
    return leave(Transition.END, "done" + await _end(state, door))


async def _end(state: RunState, door: Door) -> str:
    """Close the session that was made for the run, with its calls, reviews and sandboxes; what of it went wrong."""
    try:
        if state["owned"]:
            await door.calls.close()
            await door.client.close_session(state["session_id"])
        elif state["queue"]:
            await door.calls.cancel(state)
    except OpenSafeError as error:
        # A run that was killed here finds its session closed; any other rest is ended by the sandbox's lease.
        return "" if error.value == state["session_id"] else f" (not cleaned up: {error})"
    return ""


def failed(state: RunState, error: OpenSafeError, kind: str) -> Update:
    """Leave a step for `retry`."""
    return leave(
        Transition.FAILED,
        str(error),
        fault={"kind": kind, "text": str(error)},
        failures=state["failures"] + 1,
    )


def refused(error: OpenSafeError) -> Update:
    """Leave a step for `observe`: the daemon did not take the call."""
    return leave(Transition.REFUSE, str(error), result=told.of_error(error), failures=0, review_id="")
