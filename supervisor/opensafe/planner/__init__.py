"""A planner for agents: an explicit state machine on LangGraph whose every tool call goes through the daemon.

    async with Client.connect(find_socket()) as client, Planner.open(client, model, "runs.sqlite") as planner:
        end = await planner.run("Make the tests pass.")

`model` is any LangChain chat model that can call tools. Each state is checkpointed before the next one begins, and a
call's id stands in the checkpoint before the call is sent: a run that was killed goes on where it was, and a call it
had sent is sent again under its id, which the daemon answers with what became of it. States and transitions are the
table in `table.py`; docs/guides/planner.md draws it.
"""

try:
    import langgraph.checkpoint.sqlite.aio
    import langgraph.graph  # noqa: F401 - both are looked for, so that what is missing is named here
except ModuleNotFoundError as missing:
    raise ImportError(
        f"opensafe.planner needs {missing.name}: install the extra `planner` (pip install 'opensafe[planner]')"
    ) from missing

from .graph import build, diagram
from .limits import Backoff, Limits
from .models import load_model
from .planner import Planner, new_run_id
from .runs import RunFile
from .scripted import Script, ScriptedModel, load_script, parse_script
from .state import EndKind, RunEnd, RunState, Step
from .table import TRANSITIONS, State, Transition
from .tools import TOOLS

__all__ = [
    "TOOLS",
    "TRANSITIONS",
    "Backoff",
    "EndKind",
    "Limits",
    "Planner",
    "RunEnd",
    "RunFile",
    "RunState",
    "Script",
    "ScriptedModel",
    "State",
    "Step",
    "Transition",
    "build",
    "diagram",
    "load_model",
    "load_script",
    "new_run_id",
    "parse_script",
]
