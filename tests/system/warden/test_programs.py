"""One program through the whole of the warden: socket, decision, ledger, sentry, runner, report."""

import pytest

from opensafe.errors import NotFound

pytestmark = pytest.mark.asyncio(loop_scope="module")

ALL_BYTES = bytes(range(256))


@pytest.mark.parametrize("code", [0, 3, 255])
async def test_exit_codes_arrive_as_they_are(box, code):
    done = await box.sh(f"exit {code}")
    assert (done.ended.kind, done.ended.value) == ("exited", code)
    assert done.ended.run_ns > 0


async def test_a_signal_is_no_exit_code(box):
    done = await box.sh("kill -TERM $$")
    assert (done.ended.kind, done.ended.value) == ("signalled", 15)


async def test_a_missing_program_was_not_started(box):
    done = await box.run("no-such-program")
    assert (done.ended.kind, done.ended.value, done.ended.detail) == ("not_started", 2, "exec")


async def test_a_directory_that_is_missing_is_no_exit_code(box):
    done = await box.run("true", cwd="/nowhere")
    assert (done.ended.kind, done.ended.value, done.ended.detail) == ("not_started", 2, "cwd")


async def test_r22_all_byte_values_pass_on_both_streams(box):
    done = await box.run(
        "python3",
        "-c",
        "import sys; d = sys.stdin.buffer.read(); [s.buffer.write(d) for s in (sys.stdout, sys.stderr)]",
        stdin=ALL_BYTES,
    )
    assert (done.out, done.err) == (ALL_BYTES, ALL_BYTES)


async def test_r20_end_of_input_without_data(box):
    done = await box.run("cat")
    assert (done.ended.kind, done.ended.value, done.out) == ("exited", 0, b"")


@pytest.mark.parametrize(
    "argument", ["detach", "--detach", "-detach=true", "a\nb", "", " ", "$(id)", "é☃\U0001f600", "'\"\\", "x" * 100_000]
)
async def test_r14_arguments_arrive_as_they_are(box, argument):
    done = await box.run("python3", "-c", "import os, sys; sys.stdout.buffer.write(os.fsencode(sys.argv[1]))", argument)
    assert done.out == argument.encode()


async def test_r35_the_environment_is_the_one_that_was_decided(box):
    done = await box.run("/usr/bin/env", env={"A": "b=c", "HOME": "/tmp"})
    assert sorted(done.text.splitlines()) == ["A=b=c", "HOME=/tmp"]


async def test_home_is_the_workspace_unless_decided_otherwise(box):
    assert (await box.run("/usr/bin/env", env={})).text == "HOME=/workspace\n"


async def test_the_program_is_nobody_special(box):
    done = await box.sh("id -u; id -G; grep -E '^(Cap(Prm|Eff|Inh|Amb)|NoNewPrivs|Seccomp)' /proc/self/status; pwd")
    lines = done.text.split()
    assert lines[:2] == ["1000", "1000"]
    assert [line for line in lines if len(line) == 16] == ["0" * 16] * 4
    assert lines[-1] == "/workspace"
    assert "NoNewPrivs:" in lines
    assert lines[lines.index("NoNewPrivs:") + 1] == "1"
    assert lines[lines.index("Seccomp:") + 1] == "2"


async def test_fs_18_no_descriptor_above_the_standard_streams(box):
    done = await box.run(
        "python3",
        "-c",
        "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))",
    )
    # The last is the directory being read.
    assert done.text == "[0, 1, 2, 3]\n"


async def test_loopback_is_up_in_the_guest(box):
    done = await box.run(
        "python3",
        "-c",
        "import socket as s; l = s.create_server(('127.0.0.1', 0)); s.create_connection(l.getsockname()); print('ok')",
    )
    assert done.text == "ok\n"


async def test_there_is_no_way_out_of_the_network_namespace(box):
    done = await box.sh("cat /proc/net/dev | tail -n +3 | wc -l; curl -sS --max-time 5 http://192.0.2.1/; echo $?")
    assert done.text.split() == ["1", "7"]


async def test_two_programs_at_once(box):
    first, second = await box.start(box.launch("cat")), await box.start(box.launch("cat"))
    await second.feed(b"two")
    await first.feed(b"one")
    first.end_input()
    assert (await first.end()).out == b"one"
    second.end_input()
    assert (await second.end()).out == b"two"


async def test_an_end_is_kept_until_it_is_asked_for_and_told_once(box, client):
    launch = box.launch("bash", "-c", "exit 4")
    running = await box.start(launch)
    running.end_input()
    await running.drain()
    await client.kill(launch.exec_id)  # returns when its tree is empty: it has ended before anybody asks
    assert (await client.wait(launch.exec_id)).value == 4
    with pytest.raises(NotFound):
        await client.wait(launch.exec_id)
