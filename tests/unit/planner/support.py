"""Models, calls and states that the tests of the planner share."""

from langchain_core.messages import HumanMessage

from opensafe.planner import Backoff, Limits, Script, ScriptedModel
from opensafe.planner.scripted import Turn, Wanted

QUICK = Backoff(attempts=2, first_s=0.001, most_s=0.002)
QUICK_LIMITS = Limits(unavailable=QUICK, crowded=QUICK, sandbox=QUICK, model=QUICK)


def call(tool="Bash", **arguments):
    return Wanted(tool, arguments or {"command": "true"})


def model(*turns):
    return ScriptedModel(script=Script(turns=tuple(Turn(**turn) for turn in turns)))


def queued(number=1, tool="Bash", error="", **arguments):
    """A call as a checkpoint has it."""
    return {
        "call_id": f"run-1.{number}",
        "answers": f"id-{number}",
        "tool": tool,
        "arguments": arguments,
        "error": error,
    }


def run_state(**changes):
    """A run's state right after it began."""
    return {
        "run_id": "run-1",
        "session_id": "ses-1",
        "sandbox_id": "sb-1",
        "owned": True,
        "messages": [HumanMessage("Do it.")],
        "queue": [],
        "made": 0,
        "turns": 0,
        "failures": 0,
        "fault": None,
        "review_id": "",
        "result": None,
        "denials": {},
        "mistakes": 0,
        "last_request": "",
        "repeats": 0,
        "notes": [],
        "unreported": [0, 0],
        "trace": {},
        "transition": "",
        "line": "",
        "end": None,
        **changes,
    }
