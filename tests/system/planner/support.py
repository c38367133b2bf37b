"""Runs on a real daemon, and what its two logs say was executed."""

import asyncio
import json
from collections import Counter
from contextlib import asynccontextmanager

from langchain_core.messages import ToolMessage

from opensafe.planner import Backoff, Limits, Planner, Script, ScriptedModel
from opensafe.planner.scripted import Turn, Wanted

#: Patient with the daemon, and quick.
PATIENT = Limits(
    unavailable=Backoff(attempts=200, first_s=0.05, most_s=0.1), model=Backoff(attempts=99, first_s=0, most_s=0)
)
INSTALL = "npm install; echo two >> runs.txt"


def bash(command):
    return Wanted("Bash", {"command": command})


def scripted(*turns):
    """A model that asks for one or several calls a turn, or (a text) answers."""
    made = [
        Turn(answer=turn) if isinstance(turn, str) else Turn(calls=tuple(turn) if isinstance(turn, list) else (turn,))
        for turn in turns
    ]
    return ScriptedModel(script=Script(turns=tuple(made)))


@asynccontextmanager
async def planner_on(daemon, path, model, **options):
    async with (
        daemon.client() as client,
        Planner.open(client, model, path, **{"limits": PATIENT, **options}) as planner,
    ):
        yield planner


async def follow(planner, run_id, act=lambda _: None):
    """The transitions of a run, and its end. act: is handed each step."""
    steps = []
    async for step in planner.steps(run_id):
        steps.append((step.state, step.transition))
        act(step)
    return steps, await planner.end(run_id)


async def results(planner, run_id):
    """What the model was told of its calls, in order."""
    messages = (await planner.state(run_id))["messages"]
    return [message.content for message in messages if isinstance(message, ToolMessage)]


async def approve(daemon, review_id):
    async with daemon.client("reviewer") as reviewer:
        await reviewer.approve_review(review_id, (await reviewer.get_review(review_id)).digest)


async def started(daemon, count):
    """Wait until the daemon has started so many programs."""
    while daemon.starts() < count:  # noqa: ASYNC110 - the ledger is a file
        await asyncio.sleep(0.02)


async def runs(daemon, sandbox, program):
    """Wait until a program runs in the sandbox, and so whatever its shell did before."""
    while program not in await asyncio.to_thread(daemon.guest_processes, sandbox):  # noqa: ASYNC110 - asked of the sentry
        await asyncio.sleep(0.02)


def audit(daemon):
    """All records of the daemon's log."""
    return [json.loads(line) for line in daemon.audit_lines()]


def executions(daemon, session_id):
    """How often each call of a session was started, by the warden's ledger; zero for those that were only judged."""
    decisions = [
        record
        for record in audit(daemon)
        if record["kind"] == "decision" and record["purpose"] == "call" and record["session_id"] == session_id
    ]
    started = Counter(json.loads(line).get("exec_id") for line in daemon.ledger() if '"kind":"start"' in line)
    counted = dict.fromkeys((record["call_id"] for record in decisions), 0)
    for record in decisions:
        if record["result"]["action"] == "allow":
            counted[record["call_id"]] += started[record["exec_id"]]
    return counted
