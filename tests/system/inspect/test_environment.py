"""What a sample meets: its commands and files, policy's no in its forms, reviews, and how a sandbox ends."""

import asyncio
import os
import signal

import anyio
import pytest
from inspect_ai.util import OutputLimitExceededError, SandboxUserUnsupportedError, store
from inspect_ai.util._sandbox.events import SandboxEnvironmentProxy
from inspect_ai.util._sandbox.limits import override_max_exec_output_size, override_max_read_file_size

from opensafe.errors import Denied, SandboxError, SandboxLost, Unavailable
from opensafe.integrations.inspect import (
    DENIED,
    NOT_TAKEN,
    PARKED,
    CommandTimeoutError,
    OpenSafeSandboxConfig,
    OpenSafeSandboxEnvironment,
    ReviewerFailedError,
    SessionLimits,
    denials,
)

pytestmark = [pytest.mark.root, pytest.mark.runsc]

SECRET = ["cat", "/etc/shadow"]
PARKS = ["npm", "install", "left-pad"]


@pytest.fixture
def plain(evaluations):
    """A developer under the rules, and nobody to approve."""
    return OpenSafeSandboxConfig(socket=str(evaluations.socket_of("agent")))


@pytest.fixture
async def box(open_sandbox, plain):
    return await open_sandbox(plain)


# Commands


async def test_a_status_a_signal_and_both_streams_come_back(box):
    told = await box.exec(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (told.success, told.returncode, told.stdout, told.stderr) == (False, 3, "out\n", "err\n")
    killed = await box.exec(["sh", "-c", "kill -KILL $$"])
    assert (killed.success, killed.returncode) == (False, 137)
    assert (await box.exec(["true"])).success


async def test_a_missing_program_is_127_and_a_missing_directory_126(box):
    assert (await box.exec(["no-such-program"])).returncode in (127, DENIED)
    assert (await box.exec(["./missing.sh"])).returncode == 127
    assert (await box.exec(["ls"], cwd="nowhere")).returncode == 126


async def test_bytes_that_are_no_utf8_are_replaced(box):
    assert (await box.exec(["printf", r"a\377b"])).stdout == "a\N{REPLACEMENT CHARACTER}b"


async def test_what_was_written_before_a_deadline_comes_with_it(box):
    with pytest.raises(CommandTimeoutError) as raised:
        await box.exec(["sh", "-c", "echo begun; sleep 30"], timeout=1)
    assert raised.value.truncated_output == "begun\n"


async def test_a_command_that_timed_out_ran_once(box):
    with pytest.raises(TimeoutError):
        await box.exec(["sh", "-c", "echo ran >> runs; sleep 30"], timeout=1, timeout_retry=True)
    assert await box.read_file("runs") == "ran\n"


async def test_output_at_the_limit_is_whole_and_beyond_it_cut(box):
    with override_max_exec_output_size(1000):
        assert len((await box.exec(["head", "-c", "1000", "/dev/zero"])).stdout) == 1000
        with pytest.raises(OutputLimitExceededError) as raised:
            await box.exec(["head", "-c", "1001", "/dev/zero"])
        assert raised.value.truncated_output == "\0" * 1000
        with pytest.raises(OutputLimitExceededError) as raised:
            await box.exec(["yes"])
        assert (raised.value.truncated_output or "").startswith("y\ny\n")


async def test_inspects_shells_are_judged_by_their_text(box, open_sandbox, plain):
    assert (await box.exec(["bash", "--login", "-c", "echo hello"])).stdout == "hello\n"
    as_asked = await open_sandbox(plain.model_copy(update={"login_shell": True}))
    assert (await as_asked.exec(["bash", "--login", "-c", "echo hello"])).returncode == PARKED


async def test_a_long_command_keeps_its_words_its_input_and_its_status(box):
    words = ["it's", "", "a\nb", *["x" * 65536] * 5]
    text = "import sys; print(len(sys.argv), sys.argv[1:4], sys.stdin.read()); sys.exit(7)"
    await box.write_file("count.py", text)
    told = await box.exec(["python3", "count.py", *words], input="given")
    assert (told.returncode, told.stdout) == (7, f"{len(words) + 1} {words[:3]} given\n")
    assert (await box.exec(["ls", "/tmp"])).stdout == ""


async def test_an_argument_that_nothing_can_take_is_not_taken(box):
    told = await box.exec(["echo", "x" * 200_000])
    assert told.returncode == NOT_TAKEN
    assert "too long" in told.stderr


@pytest.mark.parametrize("word", ["a\0b", "a\ud800b", "x" * 10_000_000], ids=["nul", "surrogate", "10 MB"])
async def test_what_a_model_gets_wrong_is_told_and_nothing_is_run(box, evaluations, word):
    before = evaluations.starts()
    assert (await box.exec(["echo", word])).returncode == NOT_TAKEN
    with pytest.raises(OSError, match="Errno"):
        await box.read_file(word)
    with pytest.raises(OSError, match="Errno"):
        await box.write_file(word, "x")
    assert evaluations.starts() == before
    assert (await box.exec(["echo", "on"])).stdout == "on\n"


async def test_half_a_character_is_no_input_and_no_text(box):
    assert (await box.exec(["cat"], input="a\ud800b")).returncode == NOT_TAKEN
    with pytest.raises(OSError, match="Errno"):
        await box.write_file("half", "a\ud800b")


async def test_a_user_that_is_not_there_or_not_granted_is_unsupported(box):
    for user in ("nobody-at-all", "root"):
        with pytest.raises(SandboxUserUnsupportedError):
            await box.exec(["id"], user=user)
    assert box.denials == ()


# Files


async def test_a_file_stays_the_same_file_when_it_is_written_again(box):
    await box.write_file("deep/down/run.sh", "#!/bin/sh\necho one\n")
    await box.exec(["chmod", "755", "deep/down/run.sh"])
    await box.write_file("deep/down/run.sh", "#!/bin/sh\necho 2\n")
    assert (await box.exec(["deep/down/run.sh"])).stdout == "2\n"


async def test_text_keeps_its_line_ends_and_bytes_that_are_no_text_are_told(box):
    await box.write_file("crlf", b"a\r\nb\r\n")
    assert await box.read_file("crlf") == "a\r\nb\r\n"
    await box.write_file("bytes", b"\xff\x00")
    assert await box.read_file("bytes", text=False) == b"\xff\x00"
    with pytest.raises(UnicodeDecodeError):
        await box.read_file("bytes")


async def test_a_file_at_the_limit_is_read_and_beyond_it_not(box):
    await box.write_file("big", b"x" * 1001)
    with override_max_read_file_size(1001):
        assert len(await box.read_file("big")) == 1001
    with override_max_read_file_size(1000), pytest.raises(OutputLimitExceededError):
        await box.read_file("big")


async def test_a_file_in_the_place_of_a_directory_is_no_directory_of_its_own(box):
    await box.write_file("file", "x")
    with pytest.raises(OSError, match="file/below") as raised:
        await box.read_file("file/below")
    assert not isinstance(raised.value, IsADirectoryError)


# Policy's no


async def test_a_blocked_command_names_rule_value_and_remedy_and_is_a_denial(box):
    told = await box.exec(SECRET)
    assert (told.success, told.returncode, told.stdout) == (False, DENIED, "")
    [denial] = box.denials
    assert (denial.rule, denial.value, denial.outcome) == ("tool.read.secrets.block", "/etc/shadow", "blocked")
    assert all(part in told.stderr for part in (denial.rule, denial.value, denial.remedy))
    assert denials(SandboxEnvironmentProxy(box)) == (denial,)
    assert denials(store())[-1] == denial
    assert (await box.exec(["cat", "/etc/hostname"])).returncode != DENIED


async def test_a_blocked_file_is_a_permission_error_and_a_denial(box):
    with pytest.raises(PermissionError, match=r"tool\.read\.secrets\.block") as raised:
        await box.read_file("/etc/shadow")
    assert raised.value.filename == "/etc/shadow"
    with pytest.raises(PermissionError, match=r"tool\.write\.path\.allowlist"):
        await box.write_file("/usr/bin/ls", "x")
    assert [(one.action, one.subject) for one in box.denials] == [
        ("read_file", "/etc/shadow"),
        ("write_file", "/usr/bin/ls"),
    ]


async def test_a_parked_command_does_not_wait_and_is_a_denial(box):
    told = await box.exec(PARKS)
    assert told.returncode == PARKED
    [denial] = box.denials
    assert (denial.outcome, denial.rule) == ("review_pending", "tool.exec.package.install.review")
    assert denial.review_id.startswith("rev-")
    assert denial.review_id in told.stderr


async def test_a_judge_approves_what_is_parked_and_lifts_no_block(open_sandbox, config, evaluations):
    box = await open_sandbox(config())
    told = await box.exec(["sh", "-c", 'unset CDPATH; exec "$@"', "sh", "echo", "ran"])
    assert (told.stdout, box.denials) == ("ran\n", ())
    assert (await box.exec(SECRET)).returncode == DENIED
    async with evaluations.client("judge") as judge:
        assert {one.decided_by for one in await judge.list_reviews(all=True) if one.state == "approved"} == {"judge"}


async def test_a_judge_may_not_be_the_one_who_asks(open_sandbox, config, evaluations):
    box = await open_sandbox(config(reviewer_socket=str(evaluations.socket_of("evaluator"))))
    with pytest.raises(ReviewerFailedError, match="can't approve"):
        await box.exec(["sh", "-c", 'unset CDPATH; exec "$@"', "sh", "touch", "ran"])
    with pytest.raises(FileNotFoundError):
        await box.read_file("ran")


async def test_a_person_is_waited_for_as_long_as_the_config_says(open_sandbox, plain, evaluations):
    box = await open_sandbox(plain.model_copy(update={"review_wait_s": 0.2}))
    assert (await box.exec(PARKS)).returncode == PARKED
    waits = await open_sandbox(plain.model_copy(update={"review_wait_s": 60}))
    asking = asyncio.create_task(waits.exec(PARKS))
    async with evaluations.client("reviewer") as person:
        async for review in person.watch_reviews():
            if review.state == "pending" and review.sandbox_id == waits.sandbox.sandbox_id:
                await person.reject_review(review.review_id, "not in an evaluation")
                break
    told = await asking
    assert told.returncode == DENIED
    assert "not in an evaluation" in told.stderr


async def test_a_samples_limits_are_its_own(open_sandbox, plain):
    bounded = await open_sandbox(plain.model_copy(update={"limits": SessionLimits(calls=1)}))
    assert (await bounded.exec(["true"])).success
    assert (await bounded.exec(["true"])).returncode == DENIED
    assert [one.rule for one in bounded.denials] == ["budget.calls.ceiling"]


# Its life


async def test_a_sandbox_that_policy_refuses_is_an_error_of_the_sample(open_sandbox, plain):
    with pytest.raises(Denied, match=r"sandbox\.limits\.ceiling"):
        await open_sandbox(plain.model_copy(update={"memory_bytes": 1 << 35}))


async def test_a_host_that_is_needed_and_not_reached_is_an_error_of_the_sample(open_sandbox, plain, evaluations):
    async with evaluations.client() as client:
        before = await client.list_sandboxes()
        with pytest.raises(Unavailable, match=r"example\.org"):
            await open_sandbox(plain.model_copy(update={"hosts": ("example.org",)}))
        assert await client.list_sandboxes() == before


async def test_a_lost_sandbox_is_an_error_at_once(box, evaluations):
    running = asyncio.create_task(box.exec(["sleep", "60"]))
    async with asyncio.timeout(30):
        while "sleep" not in evaluations.guest_processes(box.sandbox.sandbox_id):  # noqa: ASYNC110 - only polled for
            await asyncio.sleep(0.05)
    os.kill(evaluations.process_of(box.sandbox.sandbox_id, "runsc-sandbox"), signal.SIGKILL)
    with pytest.raises(SandboxError):
        await running
    with pytest.raises(SandboxLost):
        await box.exec(["true"])
    with pytest.raises(SandboxLost):
        await box.read_file("x")
    with pytest.raises(ConnectionError):
        await box.connection()


async def test_a_connection_is_a_command_that_people_can_use(box):
    connection = await box.connection(user="nobody")
    assert connection.type == "opensafe"
    assert f"run --sandbox {box.sandbox.sandbox_id} --tty --user nobody bash" in connection.command


async def test_samples_clean_up_after_themselves(plain, evaluations):
    environments = await OpenSafeSandboxEnvironment.sample_init("a-task", plain, {})
    sandbox = environments["default"].as_type(OpenSafeSandboxEnvironment).sandbox.sandbox_id
    async with evaluations.client() as client:
        assert sandbox in {one.sandbox_id for one in await client.list_sandboxes()}
        await OpenSafeSandboxEnvironment.sample_cleanup("a-task", plain, environments, True)
        assert sandbox not in {one.sandbox_id for one in await client.list_sandboxes()}
        await OpenSafeSandboxEnvironment.sample_cleanup("a-task", plain, environments, False)  # once is enough


@pytest.mark.parametrize("after_s", [0, 0.02, 0.1])
async def test_a_sample_that_is_cancelled_while_it_is_made_leaves_nothing(plain, evaluations, after_s):
    async with evaluations.client() as client:
        made = {}
        with anyio.move_on_after(after_s):
            made = await OpenSafeSandboxEnvironment.sample_init("a-task", plain, {})
        assert after_s or not made
        # One that was in time belongs to the sample, and inspect_ai ends it.
        await OpenSafeSandboxEnvironment.sample_cleanup("a-task", plain, made, True)
        assert await client.list_sandboxes(labels={"inspect/task": "a-task"}) == ()


async def test_what_a_killed_evaluation_left_is_removed_by_hand(evaluations, plain, monkeypatch, capsys):
    monkeypatch.setenv("OPENSAFE_SOCKET", plain.socket)
    environments = await OpenSafeSandboxEnvironment.sample_init("a-task", None, {})
    sandbox = environments["default"].as_type(OpenSafeSandboxEnvironment).sandbox.sandbox_id
    async with evaluations.client() as client:
        own = await client.create_session("by-hand")
        kept = await client.create_sandbox(own)
        await OpenSafeSandboxEnvironment.cli_cleanup(None)
        left = {one.sandbox_id for one in await client.list_sandboxes()}
        assert (sandbox in left, kept.sandbox_id in left) == (False, True)
        await client.close_session(own)
    assert f"{sandbox} (a-task) removed" in capsys.readouterr().out
    await OpenSafeSandboxEnvironment.sample_cleanup("a-task", None, environments, False)


async def test_without_a_daemon_a_task_does_not_begin(tmp_path, plain):
    await OpenSafeSandboxEnvironment.task_init("a-task", plain)
    with pytest.raises(Unavailable, match="is not there"):
        await OpenSafeSandboxEnvironment.task_init("a-task", OpenSafeSandboxConfig(socket=str(tmp_path / "none.sock")))
