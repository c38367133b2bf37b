"""The daemon's traces in a real Jaeger: sent over OTLP, read back and compared through its query API."""

import asyncio
import json
import urllib.request

import pytest

from opensafe.model.outcome import OutcomeKind
from tests.harness import jaeger
from tests.harness.daemon import running

pytestmark = [pytest.mark.root, pytest.mark.runsc]


@pytest.fixture(scope="module")
def collector():
    with jaeger.running() as collector:
        yield collector


async def _sessions(daemon):
    """Two sessions of the same agent, the second of which asks for another file: the trace id of each."""
    found = {}
    async with daemon.client() as agent:
        for name, path in (("allowed", "/workspace/a.txt"), ("blocked", "/etc/shadow")):
            session = await agent.create_session("tester")
            place = session, (await agent.create_sandbox(session)).sandbox_id
            await agent.run_call(*place, "write", "Write", {"path": "/workspace/a.txt", "content": "a"})
            result = await agent.run_call(*place, "read", "Read", {"path": path})
            assert result.outcome.kind is (OutcomeKind.EXITED if name == "allowed" else OutcomeKind.BLOCKED)
            found[name] = result.verdict.trace_id
            await agent.close_session(session)
    return found


@pytest.fixture(scope="module")
def runs(collector):
    """Both, in Jaeger when their daemon has stopped."""
    with running(telemetry=f'otlp_endpoint = "{collector.otlp}"') as daemon:
        found = asyncio.run(_sessions(daemon))
        assert not (daemon.state / "front" / "traces.jsonl").exists()
    return found


def test_a_session_is_one_trace_of_one_service_in_jaegers_own_answer(collector, runs):
    """Asked as Jaeger's own page asks, which is not what our reader uses."""
    with urllib.request.urlopen(f"{collector.query}/api/traces/{runs['allowed']}") as answer:
        (trace,) = json.load(answer)["data"]
    assert {process["serviceName"] for process in trace["processes"].values()} == {"opensafe"}
    assert all(span["tags"] for span in trace["spans"])
    names = {span["spanID"]: span["operationName"] for span in trace["spans"]}
    edges = {
        (names.get(reference["spanID"]), span["operationName"])
        for span in trace["spans"]
        for reference in span["references"]
    }
    assert edges == {
        ("invoke_agent tester", "execute_tool sandbox.create"),
        ("invoke_agent tester", "execute_tool Write"),
        ("invoke_agent tester", "execute_tool Read"),
        ("execute_tool sandbox.create", "policy.evaluate"),
        ("execute_tool sandbox.create", "sandbox.create"),
        ("execute_tool Write", "policy.evaluate"),
        ("execute_tool Write", "file.write"),
        ("execute_tool Read", "policy.evaluate"),
        ("execute_tool Read", "file.read"),
    }


def test_a_trace_is_shown_from_the_query_api(opensafe, collector, runs):
    shown = opensafe("trace", "show", runs["allowed"], "--jaeger", collector.query)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("10 spans, ")
    assert "exited 0 read" in shown.stdout


def test_a_run_against_itself_has_no_difference(opensafe, collector, runs):
    same = opensafe("trace", "diff", runs["allowed"], runs["allowed"], "--jaeger", collector.query)
    assert same.returncode == 0, same.stdout + same.stderr


def test_an_allowed_and_a_blocked_run_differ_where_they_must_and_nowhere_else(opensafe, collector, runs):
    ended = opensafe("trace", "diff", runs["allowed"], runs["blocked"], "--jaeger", collector.query, "--json")
    assert ended.returncode == 1, ended.stderr
    details = json.loads(ended.stdout)["details"]
    moved = [(place["operation"], place["a"], place["b"]) for place in details["places"] if place["kind"] != "same"]
    assert moved == [("file.read", 1, 0)]
    (changed,) = [pair for pair in details["calls"] if pair["changes"]]
    assert changed["changes"] == ["verdict", "rules", "outcome", "exit code"]
    assert (changed["a"]["tool"], changed["a"]["call_id"], changed["a"]["exit_code"]) == ("Read", "read", 0)
    assert [verdict["action"] for verdict in changed["b"]["verdicts"]] == ["block"]
    assert changed["b"]["verdicts"][0]["rules"] == ["tool.read.secrets.block"]
