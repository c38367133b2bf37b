"""The ways through the graph, each on a real daemon: allowed, reviewed, denied, banned, malformed, restarted."""

import asyncio

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from opensafe import errors
from opensafe.planner import Limits
from opensafe.planner.scripted import Wanted
from tests.harness.daemon import signal_process
from tests.system.planner.support import (
    INSTALL,
    approve,
    audit,
    bash,
    executions,
    follow,
    planner_on,
    results,
    runs,
    scripted,
    started,
)

pytestmark = [pytest.mark.root, pytest.mark.runsc]
RAN = [("plan", "call"), ("gate", "allow"), ("execute", "ended"), ("observe", "result")]
DONE = [("plan", "answer"), ("done", "end")]
CURL = "curl evil.example.com"


async def test_an_allowed_call_runs_and_the_run_is_done(daemon, database):
    async with planner_on(daemon, database, scripted(bash("echo out; echo err >&2; exit 3"), "It fails.")) as planner:
        run_id = await planner.begin("x")
        steps, end = await follow(planner, run_id)
        told, state = await results(planner, run_id), await planner.state(run_id)
    assert steps == RAN + DONE
    assert (end.kind, end.text) == ("done", "It fails.")
    assert told == ["It exited with 3.\n--- stdout ---\nout\n\n--- stderr ---\nerr\n"]
    async with daemon.client() as client:  # what the run made ended with it
        with pytest.raises(errors.NotFound):
            await client.close_session(state["session_id"])


async def test_a_reviewed_call_waits_runs_once_approved_and_the_run_is_done(daemon, database):
    async with planner_on(daemon, database, scripted(bash(INSTALL), bash("cat runs.txt"), "Done.")) as planner:
        run_id = await planner.begin("x")
        approving = []

        def act(step):
            if step.review_id:
                approving.append(asyncio.create_task(approve(daemon, step.review_id)))

        steps, end = await follow(planner, run_id, act)
        await approving[0]
        told, state = await results(planner, run_id), await planner.state(run_id)
    reviewed = [("plan", "call"), ("gate", "review"), ("await_review", "approved"), *RAN[2:]]
    assert steps == reviewed + RAN + DONE
    assert end.kind == "done"
    assert told[1].endswith("two\n")
    assert set(executions(daemon, state["session_id"]).values()) == {1}


async def test_a_rejection_reaches_the_model_with_its_reason(daemon, database):
    async with planner_on(daemon, database, scripted(bash(INSTALL), "Without, then.")) as planner:
        run_id = await planner.begin("x")
        rejecting = []

        async def reject(review_id):
            async with daemon.client("reviewer") as reviewer:
                await reviewer.reject_review(review_id, "use the vendored packages")

        def act(step):
            if step.review_id:
                rejecting.append(asyncio.create_task(reject(step.review_id)))

        steps, end = await follow(planner, run_id, act)
        await rejecting[0]
        (told,) = await results(planner, run_id)
    assert steps == [("plan", "call"), ("gate", "review"), ("await_review", "refuse"), ("observe", "result"), *DONE]
    assert end.kind == "done"
    assert "Rejected by a reviewer" in told
    assert "use the vendored packages" in told


async def test_not_awaited_a_review_interrupts_and_only_the_daemon_can_resume_it(daemon, database):
    model = scripted(bash(INSTALL), "Done.")
    async with planner_on(daemon, database, model, await_reviews=False) as planner:
        run_id = await planner.begin("x")
        first = await planner.resume(run_id)
        assert first.kind == "waiting"
        steps, second = await follow(planner, run_id)  # resumed, and nobody has decided
        assert steps == [("await_review", "pending")]
        assert second == first
    await approve(daemon, first.review_id)
    async with planner_on(daemon, database, model, await_reviews=False) as planner:
        steps, end = await follow(planner, run_id)
        state = await planner.state(run_id)
    assert steps == [("await_review", "approved"), *RAN[2:], *DONE]
    assert end.kind == "done"
    assert executions(daemon, state["session_id"]) == {f"{run_id}.1": 1}


async def test_one_rule_that_denied_three_times_ends_the_run(daemon, database):
    turns = [bash(f"{CURL}/{number}") for number in range(5)]
    async with planner_on(daemon, database, scripted(*turns)) as planner:
        run_id = await planner.begin("x")
        steps, end = await follow(planner, run_id)
        told, state = await results(planner, run_id), await planner.state(run_id)
    assert steps[-2:] == [("observe", "stop"), ("abort", "end")]
    assert end.kind == "denied"
    assert "denied 3 times" in end.text
    assert len(told) == 3
    for part in ("Denied by policy", "egress.domain.allowlist", "evil.example.com", "remedy: "):
        assert part in told[0]
    assert set(executions(daemon, state["session_id"]).values()) == {0}


async def test_a_ban_ends_the_run_and_what_was_asked_for_after_it_is_not_sent(daemon, database):
    turn = [bash("echo one >> runs.txt"), bash("echo two >> runs.txt"), bash("echo three >> runs.txt")]
    async with (
        planner_on(daemon, database, scripted(turn), agent="ada") as planner,
        daemon.client("operator") as operator,
    ):
        run_id = await planner.begin("x")
        async for step in planner.steps(run_id):
            if (step.state, step.transition) == ("execute", "ended"):
                await operator.ban("agent", "ada", "enough")
        end, state = await planner.end(run_id), await planner.state(run_id)
        await operator.unban("agent", "ada")
    assert end.kind == "banned"
    assert executions(daemon, state["session_id"]) == {f"{run_id}.1": 1, f"{run_id}.2": 0}


async def test_the_user_ends_a_run_under_way_and_its_program(daemon, database):
    async with planner_on(daemon, database, scripted(bash("sleep 600"))) as planner:
        run_id = await planner.begin("x")
        before = daemon.starts()
        async for step in planner.steps(run_id):
            if step.transition == "allow":
                await started(daemon, before + 1)
                planner.stop("enough")
        end, state = await planner.end(run_id), await planner.state(run_id)
    assert (end.kind, end.text) == ("stopped", "enough")
    outcomes = [
        record for record in audit(daemon) if record["kind"] == "outcome" and record["call_id"] == f"{run_id}.1"
    ]
    assert [record["outcome"]["kind"] for record in outcomes] == ["cancelled"]
    assert executions(daemon, state["session_id"]) == {f"{run_id}.1": 1}


async def test_a_sandbox_that_was_given_stays(daemon, database, agent, session, sandbox):
    async with planner_on(daemon, database, scripted(bash("echo one > here"), "Done.")) as planner:
        await planner.resume(await planner.begin("x", sandbox=(session, sandbox)))
    assert (await agent.run_call(session, sandbox, "look", "Read", {"path": "here"})).stdout == b"one\n"


async def test_what_can_not_be_judged_is_told_and_too_much_of_it_ends_the_run(daemon, database):
    turns = [
        Wanted("Bash", '{"command": '),
        Wanted("Frobnicate", {}),
        Wanted("Bash", {"cmd": "ls"}),
        Wanted("Write", {"path": "x", "content": "x" * 10_000_000}),
        bash("echo alive"),
        *[Wanted("Frobnicate", {"number": number}) for number in range(9)],
    ]
    async with planner_on(daemon, database, scripted(*turns)) as planner:
        run_id = await planner.begin("x")
        end = await planner.resume(run_id)
        told, state = await results(planner, run_id), await planner.state(run_id)
    parts = ("no JSON object", "no tool of that name", "cmd", "too large", "alive")
    assert all(part in text for part, text in zip(parts, told, strict=False)), told[:5]
    assert end.kind == "mistakes"
    assert len(told) == 10
    assert list(executions(daemon, state["session_id"]).values()) == [1]
    refused = [record for record in audit(daemon) if record["kind"] == "refusal"]
    assert any(record["tool"] == "Frobnicate" for record in refused)  # the daemon heard of it


async def test_the_daemons_budget_counts_and_a_used_up_one_ends_the_run(daemon, database):
    """A session of its own ceiling, since the site's is far."""
    from opensafe.client import Limits as Ceilings

    async with daemon.client() as client:
        session = await client.create_session("spender", limits=Ceilings(calls=1))
        sandbox = (await client.create_sandbox(session)).sandbox_id
        turns = [bash(f"echo {number}") for number in range(4)]
        async with planner_on(daemon, database, scripted(*turns)) as planner:
            end = await planner.resume(await planner.begin("x", sandbox=(session, sandbox)))
        await client.close_session(session)
    assert (end.kind, "budget.calls.ceiling" in end.text) == ("budget", True)


async def test_large_output_is_shown_by_head_and_tail(daemon, database):
    turn = bash("echo begin; head -c 300000 /dev/zero | tr '\\0' x; echo; echo end")
    async with planner_on(daemon, database, scripted(turn, "Done."), limits=Limits(output_bytes=1000)) as planner:
        run_id = await planner.begin("x")
        await planner.resume(run_id)
        (told,) = await results(planner, run_id)
    assert len(told) < 1200
    assert "begin" in told
    assert told.rstrip().endswith("end")
    assert "bytes are left out here" in told


async def test_a_daemon_that_dies_and_one_that_restarts_cost_no_call_and_repeat_none(own_daemon, database):
    daemon = own_daemon()
    turns = [
        bash("echo one >> runs.txt; sleep 600"),  # its front is killed under this one
        bash("cat runs.txt"),  # before the next, all of it is restarted
        bash("echo two >> runs.txt; cat runs.txt"),
        "Done.",
    ]
    async with planner_on(daemon, database, scripted(*turns)) as planner:
        run_id = await planner.begin("x")
        steps, results_told = [], 0
        async for step in planner.steps(run_id):
            steps.append((step.state, step.transition))
            if steps == [("plan", "call"), ("gate", "allow")]:
                await runs(daemon, (await planner.state(run_id))["sandbox_id"], "sleep")
                signal_process(daemon.child("front"))
            if steps[-1] == ("observe", "result"):
                results_told += 1
                if results_told == 2:
                    assert daemon.stop() == 0
                    daemon.start()
        end, state = await planner.end(run_id), await planner.state(run_id)
        lost, kept, fresh = await results(planner, run_id)
    assert end.kind == "done"
    assert "failed, not the command" in lost
    assert kept.endswith("--- stdout ---\none\n")
    assert ("retry", "send_again") in steps
    assert fresh.startswith(
        "The sandbox was lost. A new one took its place; its workspace is empty.\nIt exited with 0."
    )
    assert fresh.endswith("--- stdout ---\ntwo\n")
    assert executions(daemon, state["session_id"]) == {f"{run_id}.{number}": 1 for number in (1, 2, 3)}


async def test_planner_and_daemon_leave_one_trace_with_a_span_for_each_transition(daemon, database):
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with planner_on(daemon, database, scripted(bash("true"), "Done."), tracer_provider=provider) as planner:
        run_id = await planner.begin("x")
        steps, _ = await follow(planner, run_id)
    spans = exporter.get_finished_spans()
    made = [span for span in spans if span.name != "planner.begin"]
    assert [(span.name, (span.attributes or {})["opensafe.planner.transition"]) for span in made] == [
        (f"planner.{state}", transition) for state, transition in steps
    ]
    (decision,) = [
        record for record in audit(daemon) if record.get("call_id") == f"{run_id}.1" and record["kind"] == "decision"
    ]
    assert {f"{span.context.trace_id:032x}" for span in spans} == {decision["trace_id"]}
