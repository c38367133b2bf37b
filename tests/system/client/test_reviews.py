"""Parked calls: told of, waited for, resumed, refused; and each runs once."""

import asyncio
import math

import pytest

from opensafe.client import AsyncSandbox, Denied, ReviewPending

pytestmark = [pytest.mark.root, pytest.mark.runsc]

UNCLEAR = "$(echo echo) hello | tee -a log"


@pytest.fixture
def decide(daemon):
    """decide(parked): approves a parked call as the reviewer, or rejects it."""

    async def decide(parked, *, reject=""):
        async with daemon.client("reviewer") as reviewer:
            review = await reviewer.get_review(parked.review_id)
            if reject:
                await reviewer.reject_review(review.review_id, reject)
            else:
                await reviewer.approve_review(review.review_id, review.digest)

    return decide


async def test_the_status_tells_callers_their_own_roles(agent, reviewer):
    assert (await agent.status()).roles == ("developer",)
    assert (await reviewer.status()).roles == ("reviewer", "auditor")


async def test_a_parked_call_is_resumed_once_approved_and_runs_once(async_box, decide):
    with pytest.raises(ReviewPending) as caught:
        await async_box.bash(UNCLEAR)
    parked = caught.value
    assert parked.review_id.startswith("rev-")
    assert parked.rules
    with pytest.raises(ReviewPending):
        await async_box.resume(parked.call_id)
    with pytest.raises(ReviewPending):
        await async_box.resume(parked.call_id, wait_review=0.01)
    await decide(parked)
    for _ in range(2):
        assert (await async_box.resume(parked.call_id, wait_review=math.inf)).stdout == "hello\n"
    assert await async_box.files.read("log") == "hello\n"


async def test_a_call_waits_while_somebody_is_told(async_box, decide):
    assert (await async_box.bash(UNCLEAR, on_review=decide)).stdout == "hello\n"
    assert (await async_box.bash(UNCLEAR, on_review=lambda parked: asyncio.run(decide(parked)))).stdout == "hello\n"
    result = await async_box.bash("$(echo cat)", stdin="typed", on_review=decide)
    assert result.stdout == "typed"


async def test_a_rejection_is_a_denial_with_the_reason(async_box, decide):
    async def reject(parked):
        await decide(parked, reject="not today")

    with pytest.raises(Denied, match="not today") as caught:
        await async_box.bash(UNCLEAR, on_review=reject)
    assert caught.value.outcome == "review_rejected"
    assert caught.value.rule


async def test_a_stream_waits_as_well(async_box, decide):
    async with async_box.stream(UNCLEAR, on_review=decide) as run:
        assert [piece.text async for piece in run] == ["hello\n"]


async def test_a_file_operation_waits_where_the_sandbox_says_so(daemon, decide):
    socket = daemon.socket_of("agent")
    async with AsyncSandbox.create("tester", socket=socket) as box:
        with pytest.raises(ReviewPending) as caught:
            await box.files.write("Makefile", "all:\n")
        assert caught.value.call_id
    async with AsyncSandbox.create("tester", socket=socket, on_review=decide) as box:
        await box.files.write("Makefile", "all:\n")
        assert await box.files.read("Makefile") == "all:\n"
