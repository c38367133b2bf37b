"""Lists by label, state and session; pages that neither repeat nor leave out; watching; others see nothing."""

import asyncio
import contextlib
import os
import signal

import pytest

from opensafe import errors
from opensafe.client import Lease, SandboxSize

pytestmark = [pytest.mark.root, pytest.mark.runsc]

SMALL = SandboxSize(memory_bytes=128 << 20)


@pytest.fixture
async def five(agent, session):
    """Five sandboxes with labels, in order."""
    return [
        (await agent.create_sandbox(session, size=SMALL, labels={"n": str(n), "odd": str(n % 2)})).sandbox_id
        for n in range(5)
    ]


def ids(sandboxes):
    return [sandbox.sandbox_id for sandbox in sandboxes]


async def test_labels_states_and_sessions_filter(agent, session, five):
    await agent.pause_sandbox(five[1])
    await agent.delete_sandbox(five[2])
    here = {"session_id": session}
    assert ids(await agent.list_sandboxes(**here)) == [five[0], five[1], five[3], five[4]]
    assert ids(await agent.list_sandboxes(labels={"odd": "1"}, **here)) == [five[1], five[3]]
    assert ids(await agent.list_sandboxes(labels={"odd": "1", "n": "3"}, **here)) == [five[3]]
    assert ids(await agent.list_sandboxes(labels={"odd": "2"}, **here)) == []
    assert ids(await agent.list_sandboxes(states=("paused", "deleted"), **here)) == [five[1], five[2]]
    assert ids(await agent.list_sandboxes(session_id="ses-none")) == []
    [shown] = await agent.list_sandboxes(labels={"n": "4"}, **here)
    assert (shown.labels, shown.size.memory_bytes, shown.network) == ({"n": "4", "odd": "0"}, 128 << 20, "none")
    assert shown.image_digest.startswith("sha256:")


async def test_pages_are_stable_while_sandboxes_come_and_go(agent, session, five):
    page = await agent.list_sandbox_page(session_id=session, page_size=2)
    seen = ids(page.sandboxes)
    await agent.delete_sandbox(five[0])  # seen already
    await agent.delete_sandbox(five[2])  # not seen yet
    late = (await agent.create_sandbox(session, size=SMALL)).sandbox_id
    while page.next_cursor:
        page = await agent.list_sandbox_page(session_id=session, page_size=2, cursor=page.next_cursor)
        seen += ids(page.sandboxes)
    assert seen == [five[0], five[1], five[3], five[4], late]


async def test_a_cursor_of_another_list_or_of_nobody_is_refused(agent, session, five):
    page = await agent.list_sandbox_page(session_id=session, page_size=2)
    for filtered in ({"labels": {"odd": "1"}}, {"states": ("running",)}, {}):
        with pytest.raises(errors.InvalidArgument, match="cursor"):
            await agent.list_sandbox_page(cursor=page.next_cursor, **filtered)
    for cursor in ("x", "MTox", "-1", "é", "MTo5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk=", "A" * 10_000):
        with pytest.raises(errors.InvalidArgument):
            await agent.list_sandbox_page(session_id=session, cursor=cursor)
    for size in (-1, 1001, 2**31 - 1):
        with pytest.raises(errors.InvalidArgument):
            await agent.list_sandbox_page(page_size=size)


@pytest.mark.parametrize(
    "labels",
    [
        {"": "x"},
        {"-a": "x"},
        {"a b": "x"},
        {"a" * 64: "x"},
        {"a": "x" * 257},
        {"a": "x\ny"},
        {"a": "\0"},
        {f"k{n}": "" for n in range(17)},
    ],
)
async def test_labels_are_bounded(agent, session, labels):
    with pytest.raises(errors.InvalidArgument):
        await agent.create_sandbox(session, labels=labels)
    assert await agent.list_sandboxes(session_id=session) == ()


async def test_labels_at_their_bounds_are_kept(agent, session):
    labels = {f"k{n:02}" + "x" * 60: "é☃ " * 85 for n in range(15)} | {"a.b/c-d_E": ""}
    made = await agent.create_sandbox(session, size=SMALL, labels=labels)
    assert (await agent.get_sandbox(made.sandbox_id)).labels == labels


@pytest.mark.parametrize("states", [("gone",), ("running", ""), ("RUNNING",)])
async def test_an_unknown_state_is_refused(agent, states):
    with pytest.raises(errors.InvalidArgument):
        await agent.list_sandboxes(states=states)


@pytest.mark.parametrize(
    "asked", [{"network": "open"}, {"lease": Lease(idle_timeout_s=-1)}, {"lease": Lease(ttl_s=-1)}]
)
async def test_what_does_not_exist_can_not_be_asked_for(agent, session, asked):
    with pytest.raises(errors.InvalidArgument):
        await agent.create_sandbox(session, **asked)


async def test_an_idle_action_that_does_not_exist_is_refused(agent, session):
    with pytest.raises(errors.InvalidArgument):
        await agent.create_sandbox(session, lease=Lease(idle_action="stop"))


async def test_another_principals_sandbox_is_not_there(daemon, agent, session, sandbox):
    async with daemon.client("other") as other:
        for operation in (
            other.get_sandbox(sandbox),
            other.renew_sandbox(sandbox),
            other.pause_sandbox(sandbox),
            other.resume_sandbox(sandbox),
            other.delete_sandbox(sandbox),
        ):
            with pytest.raises(errors.NotFound, match="no such sandbox"):
                await operation
        assert await other.list_sandboxes(states=("running", "deleted")) == ()
    assert (await agent.get_sandbox(sandbox)).state == "running"


async def test_watching_shows_what_lives_and_then_every_change(daemon, agent, session, sandbox):
    seen: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue()

    async def watch():
        async for change in agent.watch_sandboxes():
            seen.put_nowait((change.sandbox_id, change.state, change.cause))

    async with daemon.client("other") as other:
        elsewhere = await other.create_session("tester")
        watching = asyncio.create_task(watch())
        assert await seen.get() == (sandbox, "running", "asked")
        await other.create_sandbox(elsewhere, size=SMALL)  # not for this watcher
        await agent.pause_sandbox(sandbox)
        await agent.resume_sandbox(sandbox)
        await agent.renew_sandbox(sandbox)
        await agent.delete_sandbox(sandbox)
        expected = [("paused", "asked"), ("running", "asked"), ("running", "asked"), ("deleting", "asked")]
        for state, cause in [*expected, ("deleted", "asked")]:
            assert await seen.get() == (sandbox, state, cause)
        await other.close_session(elsewhere)
    assert seen.empty()
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching


async def test_deleting_is_answered_before_it_is_done_and_is_tracked(agent, session, sandbox):
    await agent.delete_sandbox(sandbox, wait=False)
    with contextlib.suppress(errors.NotFound):  # it may be quick
        assert (await agent.get_sandbox(sandbox)).state == "deleting"
        await agent.delete_sandbox(sandbox, wait=False)  # asking again is no error
    with pytest.raises((errors.Conflict, errors.NotFound)):
        await agent.run_call(session, sandbox, "c", "Bash", {"command": "true"})
    async with asyncio.timeout(30):
        while True:
            if sandbox not in [one.sandbox_id for one in await agent.list_sandboxes()]:
                break
            await asyncio.sleep(0.02)  # a watch that begins after the deletion would wait for ever
    with pytest.raises(errors.NotFound, match="deleted"):
        await agent.delete_sandbox(sandbox)


@pytest.mark.parametrize("victim", ["runsc-sandbox", "runsc-gofer"])
async def test_r49_a_sandbox_that_dies_is_lost_with_its_cause_and_others_stay(daemon, agent, session, victim):
    dying, other = [(await agent.create_sandbox(session, size=SMALL)).sandbox_id for _ in range(2)]
    async with contextlib.aclosing(agent.watch_sandboxes()) as changes:
        await anext(changes)
        os.kill(daemon.process_of(dying, victim), signal.SIGKILL)
        async with asyncio.timeout(10):
            async for change in changes:
                if change.sandbox_id == dying and change.state == "lost":
                    break
    assert change.cause == "killed"
    with pytest.raises(errors.SandboxLost, match="killed"):
        await agent.run_call(session, dying, "c", "Bash", {"command": "true"})
    for operation in (agent.pause_sandbox(dying), agent.renew_sandbox(dying)):
        with pytest.raises(errors.SandboxLost):
            await operation
    assert (await agent.run_call(session, other, "d", "Bash", {"command": "echo fine"})).stdout == b"fine\n"
    await agent.delete_sandbox(dying)
    [gone] = await agent.list_sandboxes(states=("deleted",), session_id=session)
    assert (gone.sandbox_id, gone.cause) == (dying, "killed")


async def test_lost_sandboxes_take_no_place(own_daemon):
    daemon = own_daemon(caps="sandboxes = 1")
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        first = (await agent.create_sandbox(session, size=SMALL)).sandbox_id
        with pytest.raises(errors.LimitExceeded, match=r"caps\.sandboxes = 1"):
            await agent.create_sandbox(session, size=SMALL)
        os.kill(daemon.process_of(first, "runsc-sandbox"), signal.SIGKILL)
        async with asyncio.timeout(20):
            while True:
                with contextlib.suppress(errors.LimitExceeded):
                    await agent.create_sandbox(session, size=SMALL)
                    break
                await asyncio.sleep(0.05)
        assert [one.state for one in await agent.list_sandboxes()] == ["lost", "running"]
