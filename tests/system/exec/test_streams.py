"""Bytes in, bytes out, whole, bounded, and never silently cut."""

import asyncio
import hashlib
import os
import pathlib

import pytest

from opensafe import errors
from opensafe.client import Decided, Ended, Gap, RunLimits, Started, Stderr, Stdout, Truncated
from opensafe.model.decision import Action
from opensafe.model.outcome import OutcomeKind
from tests.harness.policy import site_bundle
from tests.system.exec.support import Place, resident, until_output

MIB = 1 << 20


async def test_R17_R20_an_end_of_input_without_data_ends_what_reads_it(place):
    for call_id, stdin in (("closed", None), ("empty", b"")):
        result = await place.run(call_id, ["grep", "-c", "x"], stdin=stdin)
        assert (result.stdout, result.outcome.exit_code) == (b"0\n", 1)


async def test_R19_input_that_stays_open_is_waited_for(place):
    call = place.call("open", ["cat"], interactive=True)
    data, seen = b"\x00\x01\x02\xff", b""
    async for event in call:
        if isinstance(event, Started):
            await call.send(data)
        if isinstance(event, Stdout):
            seen += event.data
            if len(seen) >= len(data):
                await call.close_stdin()
        last = event
    assert seen == data
    assert isinstance(last, Ended)
    assert last.outcome.exit_code == 0


async def test_R21_characters_cut_between_pieces_arrive_as_bytes(place):
    text = (
        "import sys, time\n"
        "for byte in (b'\\xe2', b'\\x89', b'\\xa4'):\n"
        "    sys.stdout.buffer.write(byte); sys.stdout.flush(); time.sleep(0.1)\n"
        "sys.stdout.buffer.write('漢字'.encode() * 20000)\n"
    )
    script = await place.script("cut.py", text)
    result = await place.run("cut", ["python3", script])
    assert result.stdout.decode() == "≤" + "漢字" * 20000


async def test_R22_every_byte_value_on_both_streams(place):
    text = "import os\nfor fd in (1, 2):\n    os.write(fd, bytes(range(256)))\n"
    script = await place.script("bytes.py", text)
    result = await place.run("bytes", ["python3", script])
    assert result.stdout == result.stderr == bytes(range(256))


@pytest.fixture
async def generous(own_daemon, tmp_path):
    """A place whose policy grants a call more output than the shipped one, which is 64 MiB."""

    def change(settings):
        settings["grants"]["exec"]["limits"]["output_bytes"] = 128 * MIB

    bundle, key = site_bundle(tmp_path, change=change)
    daemon = own_daemon(bundle=bundle, key=key)
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        yield Place(daemon, agent, session, (await agent.create_sandbox(session)).sandbox_id)


async def test_R24_50_MB_on_each_stream_interleaved_arrive_whole(generous):
    text = (
        "import os\n"
        "block = bytes(range(256)) * 256\n"
        "for n in range(800):\n"
        "    for fd in (1, 2):\n"
        "        data = n.to_bytes(4, 'big') + block[4:]\n"
        "        while data:\n"
        "            data = data[os.write(fd, data):]\n"
    )
    script = await generous.script("much.py", text)
    expected = hashlib.sha256()
    for number in range(800):
        expected.update(number.to_bytes(4, "big") + (bytes(range(256)) * 256)[4:])
    found = {Stdout: hashlib.sha256(), Stderr: hashlib.sha256()}
    sizes, offset, last = {Stdout: 0, Stderr: 0}, 0, None
    limits = RunLimits(wall_ms=120_000)
    async for last in generous.call("much", ["python3", script], limits=limits):
        if isinstance(last, Stdout | Stderr):
            assert last.offset == offset
            offset += len(last.data)
            found[type(last)].update(last.data)
            sizes[type(last)] += len(last.data)
        assert not isinstance(last, Gap)
    assert (last.outcome.exit_code, last.outcome.truncated) == (0, False)
    assert sizes == {Stdout: 800 * 65536, Stderr: 800 * 65536}
    assert found[Stdout].digest() == found[Stderr].digest() == expected.digest()


async def test_R25_a_slow_reader_slows_the_program_and_not_the_daemon(daemon, place):
    script = await place.script("yes.py", "import os\nwhile True:\n    os.write(1, b'y' * 65536)\n")
    call = place.call("yes", ["python3", script], timeout_ms=20_000, limits=RunLimits(output_bytes=48 * MIB))
    seen, before, most = 0, 0, 0
    async for event in call:
        if isinstance(event, Stdout):
            assert event.offset == seen
            seen += len(event.data)
            before = before or resident(daemon)
            most = max(most, resident(daemon))
            await asyncio.sleep(0.005)
        if isinstance(event, Ended):
            assert event.outcome.kind in (OutcomeKind.OUTPUT_LIMIT, OutcomeKind.DEADLINE)
    assert seen >= 8 * MIB
    assert most - before < 8 * MIB


async def test_R25_output_that_nobody_reads_neither_grows_nor_stops_the_daemon(daemon, place):
    script = await place.script("yes.py", "import os\nwhile True:\n    os.write(1, b'y' * 65536)\n")
    await place.background("yes", ["python3", script], limits=RunLimits(output_bytes=64 * MIB))
    before = resident(daemon)
    answered = 0
    while (await place.client.get_call(place.session, "yes")).state == "running":
        answered += 1
        assert resident(daemon) - before < 16 * MIB
    assert answered > 0
    events = [event async for event in place.attach("yes")]
    gap = next(event for event in events if isinstance(event, Gap))
    kept = sum(len(event.data) for event in events if isinstance(event, Stdout))
    assert (gap.start, gap.end + kept) == (0, 64 * MIB)
    assert kept >= 512 * 1024


async def test_R26_a_limit_says_what_was_written_and_what_was_kept_of_it(place):
    limits = RunLimits(output_bytes=1000)
    events = [event async for event in place.call("cut", "seq 100000", limits=limits)]
    kept = b"".join(event.data for event in events if isinstance(event, Stdout))
    cut, ended = events[-2:]
    assert isinstance(cut, Truncated)
    assert (cut.limit, cut.delivered, len(kept)) == (1000, 1000, 1000)
    assert kept.startswith(b"1\n2\n3\n")  # the head
    assert ended.outcome.kind is OutcomeKind.OUTPUT_LIMIT
    assert cut.written == ended.outcome.stdout_bytes + ended.outcome.stderr_bytes > 1000
    assert ended.outcome.truncated
    twin = [event async for event in place.call("whole", "seq 100", limits=limits)]
    assert not any(isinstance(event, Truncated | Gap) for event in twin)
    assert (twin[-1].outcome.exit_code, twin[-1].outcome.truncated) == (0, False)


@pytest.mark.parametrize("size", [4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 5 * MIB, 100 * MIB])
async def test_R30_input_of_any_size_goes_through_in_pieces(place, size):
    data = os.urandom(1 << 20) * (size // MIB) + b"x" * (size % MIB)
    result = await place.run("sum", ["sha256sum"], stdin=data)
    assert result.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


async def test_R30_a_write_of_more_than_a_call_may_hold_is_refused_with_its_limit(place):
    arguments = {"path": "/workspace/big", "content": "x" * (4 * MIB)}
    with pytest.raises(errors.LimitExceeded, match=str(4 * MIB)):
        await place.client.run_call(place.session, place.sandbox, "big", "Write", arguments)


async def test_G55_a_stream_that_lasts_is_not_cut(own_daemon):
    """At the scale of keepalives: what cuts a quiet stream cuts it after a few of them."""
    daemon = own_daemon(service="keepalive_s = 1")
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        sandbox = (await agent.create_sandbox(session)).sandbox_id
        call = agent.call(session, sandbox, "long", "Bash", {"command": "echo begun; sleep 6; echo done"})
        events = [event async for event in call]
    assert [event.data for event in events if isinstance(event, Stdout)] == [b"begun\n", b"done\n"]
    assert events[-1].outcome.exit_code == 0


async def test_G45_arguments_pass_through_exactly_and_quoting_is_nobodys_business(place):
    odd = ["a\nb", "a\\\nb", "$(id)", "`id`", "é≤", " ", "", "-n", "--detach", "'\"", "x\ty", "\x01\x7f"]
    script = await place.script("argv.py", "import sys\nprint(ascii(sys.argv[1:]))\n")
    result = await place.run("argv", ["python3", script, *odd])
    assert result.stdout.decode().strip() == ascii(odd)
    with pytest.raises(errors.InvalidArgument, match="NUL"):
        await place.run("nul", ["python3", script, "a\0b"])
    twin = await place.run("twin", 'WORKSPACE=/workspace; cd "${WORKSPACE}"; pwd')
    assert twin.verdict.action is Action.ALLOW
    assert twin.stdout == b"/workspace\n"


async def test_R31_arguments_up_to_the_limit_run_and_beyond_it_are_refused(place):
    script = await place.script(
        "size.py", "import os, sys\nprint(sum(map(len, sys.argv[1:])), len(os.environ) > 100)\n"
    )
    fits = await place.run("fits", ["python3", script, "x" * (128 * 1024 - 1)])
    assert fits.stdout == b"%d False\n" % (128 * 1024 - 1)
    with pytest.raises(errors.LimitExceeded, match="131071"):
        await place.run("argument", ["python3", script, "x" * 128 * 1024])
    with pytest.raises(errors.LimitExceeded, match="bytes"):
        await place.run("argv", ["python3", script, *["x" * 64 * 1024] * 32])
    arguments = {"argv": ["python3", script], "env": {f"V{number}": "x" for number in range(1000)}}
    with pytest.raises(errors.InvalidArgument):
        await place.client.run_call(place.session, place.sandbox, "env", "Exec", arguments)
    arguments = {"argv": ["python3", script], "env": {f"V{number}": "x" for number in range(128)}}
    result = await place.client.run_call(place.session, place.sandbox, "env-fits", "Exec", arguments)
    assert result.stdout == b"0 True\n"


@pytest.mark.parametrize("name", ["A=B", "A\0B", "A\nB", "$(id)", "", "1A", "a b"])
async def test_R32_an_environment_name_that_is_more_than_a_name_is_refused(daemon, place, name):
    before = daemon.starts()
    arguments = {"command": "true", "env": {name: "c"}}
    with pytest.raises(errors.InvalidArgument):
        await place.client.run_call(place.session, place.sandbox, "env", "Bash", arguments)
    assert daemon.starts() == before


def environment(pid):
    return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


async def test_R35_the_guest_sees_its_own_environment_and_the_daemon_keeps_its(own_daemon, monkeypatch):
    monkeypatch.setenv("OF_THE_DAEMON", "kept")
    daemon = own_daemon()
    assert b"OF_THE_DAEMON=kept" in environment(daemon.process.pid)  # the control
    async with daemon.client() as client:
        session = await client.create_session("tester")
        sandbox = (await client.create_sandbox(session)).sandbox_id
        arguments = {"command": "env", "env": {"MINE": "x"}}
        seen = (await client.run_call(session, sandbox, "env", "Bash", arguments)).stdout
        assert b"MINE=x" in seen.splitlines()
        assert b"OF_THE_DAEMON" not in seen
        next_one = await client.run_call(session, sandbox, "next", "Bash", {"command": "echo .$MINE."})
        assert next_one.stdout == b"..\n"


async def test_an_attached_client_can_feed_what_the_first_one_left_open(place):
    script = await place.script("read.sh", "echo up; read line; echo got $line")
    await place.background("fed", ["bash", script], interactive=True)
    call = place.attach("fed")
    await until_output(call, b"up")
    await call.send(b"that\n")
    assert await until_output(call, b"got that") == b"got that\n"


async def test_a_message_out_of_place_ends_the_stream_with_a_typed_error(place):
    async def told(call, send):
        async for event in call:
            if isinstance(event, Started):
                await send(call)

    with pytest.raises(errors.InvalidArgument):
        await told(place.call("stdin", "sleep 1000"), lambda call: call.send(b"x"))
    with pytest.raises(errors.InvalidArgument):
        await told(place.call("resize", "sleep 1000"), lambda call: call.resize(80, 24))
    call = place.call("verdict", "true")
    assert isinstance(await anext(call), Decided)
    await call.aclose()
