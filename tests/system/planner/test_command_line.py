"""`opensafe agent run`: the demo agent through its review to the end, waiting or resumed."""

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from opensafe.cli.exits import Exit
from tests.harness.daemon import ROOT
from tests.system.planner.support import approve, planner_on, scripted

pytestmark = [pytest.mark.root, pytest.mark.runsc]
REVIEW = r"rev-[0-9a-f]+"


@pytest.fixture
def shell(daemon, tmp_path):
    """Starts `opensafe agent run` with the run kept below tmp_path."""

    async def start(*arguments, **environment):
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "opensafe.cli", "agent", "run", *arguments),
            env={
                **os.environ,
                "OPENSAFE_SOCKET": str(daemon.socket_of("agent")),
                "XDG_STATE_HOME": str(tmp_path),
                "PYTHONUNBUFFERED": "1",
                **environment,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    return start


def found(pattern, text, group=0):
    """The one place of a pattern in what was printed, which must be there."""
    match = re.search(pattern, text, re.MULTILINE)
    assert match is not None, text
    return match[group]


async def until(process, pattern):
    """What was printed up to the line that has the pattern, which must come."""
    lines = []
    async for line in process.stdout:
        lines.append(line.decode())
        if re.search(pattern, lines[-1]):
            return "".join(lines)
    raise AssertionError("".join(lines) + (await process.stderr.read()).decode())


async def test_the_demo_agent_goes_through_its_review_to_done(daemon, shell):
    process = await shell("--script", "demo")
    said = await until(process, "A reviewer decides")
    await approve(daemon, found(REVIEW, said))
    rest, complaints = await process.communicate()
    assert process.returncode == 0, complaints
    for line in ("gate -> await_review (review)", "plan -> gate (call): Bash"):
        assert line in said
    for line in ("await_review -> execute (approved)", "gate -> observe (refuse): blocked", "done -> end (end): done"):
        assert line in rest.decode()
    assert rest.decode().splitlines()[-1].startswith("The till is written")


async def test_without_waiting_it_ends_at_the_review_and_is_resumed_by_the_line_it_prints(daemon, shell):
    process = await shell("--script", "demo", "--no-wait")
    said = (await process.communicate())[0].decode()
    assert process.returncode == Exit.REVIEW
    await approve(daemon, found(REVIEW, said))
    line = found(r"then `opensafe agent run (.*)`$", said, 1)
    resumed = await shell(*shlex.split(line))
    said = (await resumed.communicate())[0].decode()
    assert resumed.returncode == 0
    assert said.startswith("await_review -> execute (approved)")


async def test_an_interrupt_ends_the_run_for_good(daemon, shell, tmp_path):
    process = await shell("--script", "demo")
    said = await until(process, "A reviewer decides")
    process.send_signal(signal.SIGINT)
    rest = (await process.communicate())[0].decode()
    assert process.returncode == Exit.INTERRUPTED
    assert "aborted, stopped: stopped by the user" in rest
    run_id = found(r"run-[0-9a-f]+", said)
    async with planner_on(daemon, tmp_path / f"opensafe/runs/{run_id}.sqlite", scripted()) as planner:
        assert [step async for step in planner.steps(run_id)] == []
        assert (await planner.end(run_id)).kind == "stopped"


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Takes spans; `names` of them."""

    def __init__(self):
        self.names = []

    async def Export(self, request, context):  # noqa: N802 - the name of the RPC
        for resource in request.resource_spans:
            self.names += [span.name for scope in resource.scope_spans for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()


async def test_spans_go_to_the_collector_that_is_named(shell, tmp_path):
    collector, server = Collector(), grpc.aio.server()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    script = tmp_path / "script.json"
    script.write_text('{"turns": [{"answer": "Done."}]}')
    process = await shell("--script", str(script), "x", OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}")
    _, complaints = await process.communicate()
    await server.stop(None)
    assert process.returncode == 0, complaints
    assert sorted(collector.names) == ["planner.begin", "planner.done", "planner.plan"]


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/planner/*.py")), ids=lambda path: path.name)
def test_an_example_runs(daemon, path):
    ended = subprocess.run(
        [sys.executable, path],
        env={**os.environ, "OPENSAFE_SOCKET": str(daemon.socket_of("agent"))},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert "gate -> observe (refuse) blocked, egress.domain.allowlist" in ended.stdout
    assert ended.stdout.endswith("The answer is 42.\n")
