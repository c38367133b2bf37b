"""A call and its clients: left, found again, shared, followed from any byte on. R27, R29, R9, G51."""

import contextlib

import grpc
import pytest

from opensafe import errors
from opensafe._proto.v1 import exec_pb2, exec_pb2_grpc
from opensafe.client import Decided, Ended, Gap, Started, Stdout, collect
from opensafe.model.outcome import OutcomeKind
from tests.harness.daemon import signal_process
from tests.system.exec.support import eventually, until_output

COUNT = "import sys, time\nfor n in range({count}):\n    print(n, flush=True)\n    time.sleep({pause})\n"
FLOOD = "import sys\nfor n in range(40000):\n    sys.stdout.buffer.write(b'%07d\\n' % n * 128)\n"


async def test_R29_a_call_left_in_the_background_is_read_without_gap_or_repeat(place):
    script = await place.script("count.py", COUNT.format(count=40, pause=0.02))
    await place.background("bg", ["python3", script])
    seen, offset = b"", 0
    for _ in range(4):  # leave and come back, each time where the last piece ended
        call = place.attach("bg", offset=offset)
        async with contextlib.aclosing(call):
            async for event in call:
                if isinstance(event, Stdout):
                    assert event.offset == offset
                    seen += event.data
                    offset = len(seen)
                    break
    rest = await collect(place.attach("bg", offset=offset), 1 << 20)
    assert (seen + rest.stdout).decode() == "".join(f"{n}\n" for n in range(40))
    assert rest.outcome.exit_code == 0
    assert rest.missed == 0
    again = await collect(place.attach("bg"), 1 << 20)
    assert again.stdout == seen + rest.stdout


async def test_an_attacher_hears_verdict_start_output_and_end(place):
    started = await place.background("bg", "echo one")
    events = [event async for event in place.attach("bg")]
    assert [type(event) for event in events] == [Decided, Started, Stdout, Ended]
    assert events[1].exec_id == started.exec_id


async def test_R27_two_subscribers_one_stalled_and_the_other_gets_everything(daemon, place):
    script = await place.script("flood.py", FLOOD)
    expected = b"".join(b"%07d\n" % n * 128 for n in range(40000))
    call = place.call("shared", ["python3", script], on_disconnect="keep")
    async with daemon.client() as other, contextlib.aclosing(call):
        async for event in call:
            if isinstance(event, Started):
                break
        stalled = other.attach(place.session, "shared")
        await anext(stalled)  # it is there, and reads no further
        rest = [event async for event in call]
        assert b"".join(event.data for event in rest if isinstance(event, Stdout)) == expected
        assert not any(isinstance(event, Gap) for event in rest)
        late = [event async for event in stalled]
        got = sum(len(event.data) for event in late if isinstance(event, Stdout))
        lost = sum(event.end - event.start for event in late if isinstance(event, Gap))
        assert got + lost == len(expected)
        assert lost > 0  # which it is told
        assert late[-1].outcome.truncated


async def test_R27_a_client_that_drops_attaches_again_and_the_call_ran_once(daemon, place):
    script = await place.script("wait.sh", "echo up; read line; echo got $line")
    before = daemon.starts()
    call = place.call("dropped", ["bash", script], on_disconnect="keep", interactive=True)
    await until_output(call, b"up")
    await call.aclose()
    again = place.attach("dropped", offset=3)
    output = []
    async with contextlib.aclosing(again):
        async for event in again:
            if isinstance(event, Started):
                await again.send(b"it\n")
            if isinstance(event, Stdout):
                output.append((event.data, event.offset))
            last = event
    assert output == [(b"got it\n", 3)]
    assert last.outcome.exit_code == 0
    assert daemon.starts() == before + 1


async def test_G51_what_is_not_kept_ends_with_its_last_client_and_not_before(daemon, place):
    script = await place.script("up.sh", "echo up; sleep 1000")
    call = place.call("shared", ["bash", script])
    await until_output(call, b"up")
    async with daemon.client() as other:
        second = other.attach(place.session, "shared")
        await until_output(second, b"up")
        await call.aclose()
        assert (await place.client.get_call(place.session, "shared")).state == "running"
        await second.aclose()
    info = await eventually(lambda: place.client.get_call(place.session, "shared"), lambda call: call.state == "ended")
    assert info.outcome.kind is OutcomeKind.CANCELLED
    assert {"bash", "sleep"}.isdisjoint(place.processes())


async def test_a_tag_finds_the_call_and_belongs_to_one_at_a_time(place):
    script = await place.script("up.sh", "echo up $1; sleep ${2:-1000}")
    await place.background("first", ["bash", script, "1"], tag="build")
    with pytest.raises(errors.Conflict, match="tag"):
        await place.background("second", ["bash", script, "2"], tag="build")
    assert await until_output(place.attach(tag="build"), b"up") == b"up 1\n"
    await place.client.signal_call(place.session, "first", 9, whole_tree=True)
    assert (await collect(place.attach(tag="build"), 100)).stdout == b"up 1\n"  # the latest, since none is open
    assert (await place.run("third", ["bash", script, "3", "0"], tag="build")).outcome.exit_code == 0
    assert (await collect(place.attach(tag="build"), 100)).stdout == b"up 3\n"


@pytest.mark.parametrize("tag", ["x" * 65, "a\nb", "\x1b[2J"], ids=["long", "newline", "escape"])
async def test_a_tag_out_of_form_is_refused(place, tag):
    with pytest.raises(errors.InvalidArgument, match="tag"):
        await place.run("odd", "true", tag=tag)


async def test_calls_are_listed_by_state_and_tag_in_pages(place):
    script = await place.script("up.sh", "sleep 1000")
    for number in range(5):
        await place.run(f"ended-{number}", "true", tag="odd" if number % 2 else "even")
    await place.background("running", ["bash", script])
    await place.run("parked", "npm install")

    async def ids(**wanted):
        found = []
        while True:
            page = await place.client.list_calls(place.session, **wanted)
            found += [call.call_id for call in page.calls]
            wanted["cursor"] = page.next_cursor
            if not page.next_cursor:
                return found

    ended = [f"ended-{number}" for number in (4, 3, 2, 1, 0)]
    *listed, planted = await ids()  # the last is the upload of the script
    assert listed == ["parked", "running", *ended]
    assert await ids(page_size=2) == await ids()
    assert await ids(state="running") == ["running"]
    assert await ids(state="parked") == ["parked"]
    assert await ids(state="ended", page_size=1) == [*ended, planted]
    assert await ids(tag="odd") == ["ended-3", "ended-1"]
    for bad in ({"page_size": -1}, {"page_size": 1001}, {"cursor": "x"}, {"cursor": "1." + "x" * 200}):
        with pytest.raises(errors.InvalidArgument):
            await ids(**bad)


async def test_CP_03_calls_of_another_principal_are_not_found(daemon, place):
    await place.background("mine", "sleep 1000")
    async with daemon.client("other") as other:
        for refused in (
            other.list_calls(place.session),
            other.get_call(place.session, "mine"),
            other.signal_call(place.session, "mine", 15),
            anext(other.attach(place.session, "mine")),
        ):
            with pytest.raises(errors.NotFound):
                await refused
    with pytest.raises(errors.NotFound):
        await place.client.get_call(place.session, "none")
    assert (await place.client.get_call(place.session, "mine")).state == "running"


@pytest.mark.parametrize("offset", [-1, 1 << 53, (1 << 63) - 1, 1 << 63])
async def test_R34_an_offset_that_no_call_has_is_refused(place, offset):
    script = await place.script("up.sh", "echo up; sleep 1000")
    await place.background("bg", ["bash", script])
    with pytest.raises(errors.InvalidArgument, match="offset"):
        await anext(place.attach("bg", offset=offset))
    assert await until_output(place.attach("bg", offset=0), b"up") == b"up\n"


async def test_a_background_call_ends_with_its_session(daemon, agent):
    session = await agent.create_session("tester")
    sandbox = (await agent.create_sandbox(session)).sandbox_id
    events = [e async for e in agent.call(session, sandbox, "bg", "Bash", {"command": "sleep 1000"}, background=True)]
    assert isinstance(events[-1], Started)
    attached = agent.attach(session, "bg")
    assert isinstance(await anext(attached), Decided)
    await agent.close_session(session)
    last = [event async for event in attached][-1]
    assert isinstance(last, Ended)
    assert last.outcome.kind is OutcomeKind.CANCELLED
    with pytest.raises(errors.NotFound):
        await anext(agent.attach(session, "bg"))


async def test_a_background_call_counts_among_the_running_ones(own_daemon):
    daemon = own_daemon(caps="running_calls = 2")
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        sandbox = (await agent.create_sandbox(session)).sandbox_id
        for call_id in ("bg-1", "bg-2"):
            call = agent.call(session, sandbox, call_id, "Bash", {"command": "sleep 1000"}, background=True)
            assert isinstance([event async for event in call][-1], Started)
        with pytest.raises(errors.LimitExceeded, match="running_calls"):
            await agent.run_call(session, sandbox, "more", "Bash", {"command": "true"})
        # Both: the warden counts a program until it is reaped, which may be a moment after its outcome.
        for call_id in ("bg-1", "bg-2"):
            await agent.signal_call(session, call_id, 15)
            assert (await collect(agent.attach(session, call_id), 100)).outcome.signal == 15
        assert (await agent.run_call(session, sandbox, "more", "Bash", {"command": "true"})).outcome.exit_code == 0


async def test_output_is_kept_for_a_stated_time_and_the_outcome_for_longer(own_daemon):
    daemon = own_daemon(caps="retained_output_s = 0")
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        sandbox = (await agent.create_sandbox(session)).sandbox_id
        await agent.run_call(session, sandbox, "done", "Bash", {"command": "echo four"})
        result = await eventually(lambda: collect(agent.attach(session, "done"), 100), lambda result: result.missed)
        assert (result.stdout, result.missed, result.outcome.exit_code) == (b"", 5, 0)
        assert result.outcome.truncated
        info = await agent.get_call(session, "done")
        assert (info.retained_from, info.retained_to) == (5, 5)


async def test_R9_a_kept_call_under_a_front_that_dies_is_attached_to_again_and_is_lost(own_daemon):
    daemon = own_daemon()
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        sandbox = (await agent.create_sandbox(session)).sandbox_id
        call = agent.call(session, sandbox, "kept", "Bash", {"command": "echo up; sleep 1000"}, on_disconnect="keep")
        await until_output(call, b"up")
        signal_process(daemon.child("front"))
        last = None
        async for last in call:
            assert not isinstance(last, Decided | Started | Stdout)  # nothing is told twice
        assert last.outcome.kind is OutcomeKind.LOST
        assert daemon.starts() == 1


async def test_a_quiet_stream_is_kept_alive_and_numbered(own_daemon):
    daemon = own_daemon(service="keepalive_s = 1")
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        sandbox = (await agent.create_sandbox(session)).sandbox_id
        async with grpc.aio.insecure_channel(f"unix:{daemon.socket_of('agent')}") as channel:
            start = exec_pb2.StartCall(
                session_id=session,
                sandbox_id=sandbox,
                call_id="quiet",
                tool="Bash",
                arguments_json=b'{"command":"sleep 2.5; echo end"}',
            )
            call = exec_pb2_grpc.ExecServiceStub(channel).Exec(iter([exec_pb2.ExecRequest(start=start)]))
            messages = [message async for message in call]
    kinds = [message.WhichOneof("event") for message in messages]
    assert kinds.count("keepalive") >= 2
    assert [kind for kind in kinds if kind != "keepalive"] == ["decided", "started", "stdout", "outcome"]
    assert [message.sequence for message in messages] == list(range(1, len(messages) + 1))
