"""Requests that meet: a call ends once, whatever is asked for at the same time and whoever goes away meanwhile."""

import asyncio
import contextlib
import json
import pathlib
from collections import Counter

import grpc
import pytest

from opensafe import errors
from opensafe._proto.v1 import (
    review_pb2,
    review_pb2_grpc,
    sandbox_pb2,
    sandbox_pb2_grpc,
    session_pb2,
    session_pb2_grpc,
)
from opensafe.audit.verify import verify_state
from opensafe.model.outcome import OutcomeKind

INSTALL = {"command": "npm install; echo ran >> runs.txt"}


def records(daemon):
    return [json.loads(line) for line in (daemon.state / "audit" / "segment-000000.jsonl").read_text().splitlines()]


def outcomes(daemon, session):
    """How often each call of a session ended."""
    return Counter(r["call_id"] for r in records(daemon) if r["kind"] == "outcome" and r["session_id"] == session)


async def parked(agent, session, sandbox, call_id):
    result = await agent.run_call(session, sandbox, call_id, "Bash", INSTALL)
    return result.verdict.review_id


async def settled(*awaitables):
    """All of them, their refusals included."""
    return await asyncio.gather(*awaitables, return_exceptions=True)


async def test_approve_reject_and_close_at_once_end_each_call_once(daemon, agent):
    async with daemon.client("reviewer") as reviewer:
        for round_ in range(6):
            session = await agent.create_session("tester")
            sandbox = (await agent.create_sandbox(session)).sandbox.sandbox_id
            ids = [await parked(agent, session, sandbox, f"call-{number}") for number in range(4)]
            digest = (await reviewer.get_review(ids[0])).digest
            requests = [
                *(reviewer.approve_review(review_id, digest) for review_id in ids),
                *(reviewer.reject_review(review_id, "no") for review_id in ids),
                agent.close_session(session),
                *(reviewer.approve_review(review_id, digest) for review_id in ids),
            ]
            await settled(*(requests[round_:] + requests[:round_]))
            with pytest.raises(errors.NotFound):
                await agent.run_call(session, sandbox, "late", "Bash", {"command": "true"})
            assert set(outcomes(daemon, session).values()) == {1}
            assert len(outcomes(daemon, session)) == len(ids)
            states = Counter(r["review_id"] for r in records(daemon) if r["kind"] == "review" and r["review_id"] in ids)
            assert set(states.values()) == {1}
    assert verify_state(daemon.state).ok


async def test_an_approver_that_goes_away_does_not_take_the_call_with_it(daemon, agent, session, sandbox):
    review_id = await parked(agent, session, sandbox, "left")
    async with daemon.client("reviewer") as reviewer:
        digest = (await reviewer.get_review(review_id)).digest

    async def leave(channel):
        stub = review_pb2_grpc.ReviewServiceStub(channel)
        call = stub.ApproveReview(review_pb2.ApproveReviewRequest(review_id=review_id, digest=digest))
        await asyncio.sleep(0.002)
        call.cancel()

    await on_a_channel(daemon, "reviewer", leave)
    async with asyncio.timeout(20):
        while not outcomes(daemon, session)["left"]:
            result = await agent.run_call(session, sandbox, "left", "Bash", INSTALL)
            if result.outcome.kind is OutcomeKind.REVIEW_PENDING:
                break  # the request never arrived, which is as good
        else:
            assert outcomes(daemon, session)["left"] == 1


async def test_clients_that_leave_while_sandboxes_are_made_leave_none_behind(daemon, agent):
    session = await agent.create_session("tester")

    async def leave(channel):
        stub = sandbox_pb2_grpc.SandboxServiceStub(channel)
        calls = [stub.CreateSandbox(sandbox_pb2.CreateSandboxRequest(session_id=session)) for _ in range(4)]
        await asyncio.sleep(0.05)
        for call in calls:
            call.cancel()

    await on_a_channel(daemon, "agent", leave)
    await agent.close_session(session)
    await eventually(agent.status, lambda status: status.sandboxes == 0)
    assert await agent.list_sandboxes() == ()


async def test_a_client_that_leaves_while_it_closes_can_close_again(daemon, agent):
    session = await agent.create_session("tester")
    await agent.create_sandbox(session)

    async def leave(channel):
        stub = session_pb2_grpc.SessionServiceStub(channel)
        call = stub.CloseSession(session_pb2.CloseSessionRequest(session_id=session))
        await asyncio.sleep(0.005)
        call.cancel()

    await on_a_channel(daemon, "agent", leave)
    with contextlib.suppress(errors.NotFound):  # the first request was enough
        await agent.close_session(session)
    with pytest.raises(errors.NotFound):
        await agent.close_session(session)
    await eventually(agent.list_sandboxes, lambda listed: listed == ())


async def test_closing_a_session_ends_its_running_calls(daemon, agent):
    session = await agent.create_session("tester")
    sandbox = (await agent.create_sandbox(session)).sandbox.sandbox_id
    running = asyncio.create_task(agent.run_call(session, sandbox, "long", "Bash", {"command": "sleep 1000"}))
    await eventually(lambda: asyncio.to_thread(daemon.guest_processes, sandbox), lambda names: len(names) > 2)
    await agent.close_session(session)
    assert (await running).outcome.kind is OutcomeKind.CANCELLED


async def test_the_same_call_id_in_another_sandbox_is_another_request(agent, session, sandbox):
    other = (await agent.create_sandbox(session)).sandbox.sandbox_id
    await agent.run_call(session, sandbox, "same", "Bash", {"command": "true"})
    with pytest.raises(errors.Conflict):
        await agent.run_call(session, other, "same", "Bash", {"command": "true"})


async def eventually(ask, holds):
    """Ask again until the answer holds: what goes on behind an answer has no event of its own to await."""
    for _ in range(400):
        if holds(await ask()):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it never came to hold")


async def on_a_channel(daemon, principal, work):
    """Do `work` on a connection of its own, which then goes away."""
    async with grpc.aio.insecure_channel(f"unix:{daemon.run}/principals/{principal}/opensafe.sock") as channel:
        await work(channel)


async def test_R25_large_calls_that_ended_hold_no_memory(daemon, agent, session, sandbox):
    def resident():
        return int(pathlib.Path(f"/proc/{daemon.child('front')}/statm").read_text().split()[1]) * 4096

    arguments = {"path": "/workspace/large", "content": "x" * (3 << 20)}
    for number in range(4):
        await agent.run_call(session, sandbox, f"warm-{number}", "Write", arguments)
    before = resident()
    for number in range(16):
        await agent.run_call(session, sandbox, f"large-{number}", "Write", arguments)
        await asyncio.sleep(0.3)  # within caps.arguments_bytes_per_s
    assert resident() - before < 32 << 20  # of the 48 MiB that were sent


async def test_D3_a_flood_of_bytes_is_refused_with_its_cap(own_daemon):
    daemon = own_daemon(caps="arguments_bytes_per_s = 100000")
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        large = {"command": f"echo {'x' * 90_000}"}
        answers = await settled(*(agent.decide(session, "Bash", large) for _ in range(20)))
        refused = [answer for answer in answers if isinstance(answer, errors.LimitExceeded)]
        assert 0 < len(refused) < 20
        assert "arguments_bytes_per_s" in str(refused[0])


async def test_D3_a_flood_of_permits_is_refused_with_the_same_cap(own_daemon):
    daemon = own_daemon(caps="arguments_bytes_per_s = 100000")
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        large = {"command": f"echo {'x' * 90_000}"}
        answers = await settled(*(agent.begin(session, f"p-{number}", "Bash", large) for number in range(20)))
        refused = [answer for answer in answers if isinstance(answer, errors.LimitExceeded)]
        assert 0 < len(refused) < 20
        assert "arguments_bytes_per_s" in str(refused[0])
