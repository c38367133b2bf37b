"""A run from a task to its end, each call judged. Run it with `python examples/planner/quickstart.py`."""

import asyncio
import pathlib
import tempfile

from opensafe.client import Client, find_socket
from opensafe.planner import Planner, ScriptedModel, parse_script

#: What stands in for a model; with langchain-openai it is ChatOpenAI(model=...), and the task is its to solve.
SCRIPT = """
turns:
- call: {tool: Write, arguments: {path: answer.py, content: "print(6 * 7)"}}
- call: {tool: Bash, arguments: {command: curl https://evil.example.com}}
- call: {tool: Bash, arguments: {command: python3 answer.py}}
- answer: The answer is 42.
"""


async def main(runs: pathlib.Path) -> None:
    """Print each transition, and the answer."""
    model = ScriptedModel(script=parse_script(SCRIPT))
    async with Client.connect(find_socket()) as client, Planner.open(client, model, runs / "runs.sqlite") as planner:
        run_id = await planner.begin("Compute six times seven.")
        async for step in planner.steps(run_id):
            print(f"{step.state} -> {step.to} ({step.transition})", step.line)
        print((await planner.end(run_id)).text)


with tempfile.TemporaryDirectory() as directory:  # where a run is to be resumed, a place that stays
    asyncio.run(main(pathlib.Path(directory)))
