"""A planner that is killed again and again: `python -m THIS SOCKET DATABASE SCRIPT POINT…`.

A point is STATE:PHASE. For each, this process forks one that goes on with the run and kills itself (SIGKILL) there:
`enter` and `leave` are the begin and the end of the state's span, and `told` is when its transition is told. At the
begin of a state the checkpoint of the one before is on disk, and its own is not. The run is begun by the first. A line
on standard output says which point was met, and one on standard input starts the next. The last has no point and comes
to the end. Forked and not started anew, because importing takes a second.
"""

import asyncio
import json
import os
import signal
import sys

from langchain_core.messages import AIMessage
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from opensafe.client import Client
from opensafe.planner import Planner, ScriptedModel, load_script
from tests.system.planner.support import PATIENT

RUN = "run-killed"


class Flaky(ScriptedModel):
    """Fails once in each process at the turn that its script calls flaky."""

    failed: bool = False

    def _generate(self, messages, *arguments, **options):
        turns = self.script.turns
        number = sum(isinstance(message, AIMessage) for message in messages)
        if number < len(turns) and turns[number].says == "flaky" and not self.failed:
            self.failed = True
            raise ConnectionError("the provider is away")
        return super()._generate(messages, *arguments, **options)


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


class Killer(SpanProcessor):
    """Kills at a state's begin or end."""

    def __init__(self, state, phase):
        self._name, self._phase = f"planner.{state}", phase

    def on_start(self, span, parent_context=None):
        if (span.name, self._phase) == (self._name, "enter"):
            _die()

    def on_end(self, span):
        if (span.name, self._phase) == (self._name, "leave"):
            _die()


async def go_on(socket, database, script, state, phase, *, begins):
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Killer(state, phase))
    model = Flaky(script=load_script(script))
    async with (
        Client.connect(socket) as client,
        Planner.open(client, model, database, limits=PATIENT, tracer_provider=provider) as planner,
    ):
        if begins:
            await planner.begin("Be killed.", run_id=RUN)
        async for step in planner.steps(RUN):
            if (step.state, phase) == (state, "told"):
                _die()


def main(socket, database, script, *points):
    for number, point in enumerate((*points, "")):
        state, _, phase = point.partition(":")
        child = os.fork()
        if child == 0:
            asyncio.run(go_on(socket, database, script, state, phase, begins=number == 0))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(json.dumps({"point": point, "status": os.waitstatus_to_exitcode(status)}) + "\n")
        sys.stdout.flush()
        if point:
            sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
