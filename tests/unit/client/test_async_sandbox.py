"""The sandbox API against a double: what is a result, whose failure is whose, what is repeated."""

import asyncio
import inspect
import math
import pickle

import pytest

from opensafe import errors
from opensafe.client import (
    AsyncSandbox,
    AsyncSession,
    CallLost,
    CommandCancelled,
    CommandFailed,
    CommandNotStarted,
    CommandTimedOut,
    Denied,
    OutputLimitExceeded,
    Retry,
    ReviewPending,
    Sandbox,
    Session,
)
from tests.unit.client import daemon_double

QUICK = Retry(attempts=4, first_s=0.001)


@pytest.fixture
async def box(daemon):
    async with AsyncSandbox.create("tester", socket=daemon.path, retry=QUICK) as box:
        yield box


# Results


async def test_a_command_is_its_output_and_its_status(box):
    result = await box.exec(["a", "b"])
    assert (result.exit_code, result.stdout, result.stdout_bytes) == (3, "a b", b"a b")
    assert result.stderr_bytes == daemon_double.EVERY_BYTE
    assert "\N{REPLACEMENT CHARACTER}" in result.stderr
    assert not result.ok
    assert not result.truncated


async def test_a_status_is_an_exception_only_where_it_is_checked(box):
    with pytest.raises(CommandFailed, match="exited with 3") as caught:
        await box.exec(["a"], check=True)
    assert caught.value.result.stdout == "a"
    assert (await box.tool("Echo", {}, check=True)).ok  # the twin


async def test_a_signal_is_a_negative_status(box):
    result = await box.tool("End", {"kind": "SIGNALLED", "signal": 9})
    assert result.exit_code == -9
    with pytest.raises(CommandFailed, match="signal 9"):
        await box.tool("End", {"kind": "SIGNALLED", "signal": 9}, check=True)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("DEADLINE", CommandTimedOut),
        ("OUTPUT_LIMIT", OutputLimitExceeded),
        ("CANCELLED", CommandCancelled),
        ("NOT_STARTED", CommandNotStarted),
        ("LOST", CallLost),
        ("BLOCKED", Denied),
        ("REVIEW_REJECTED", Denied),
        ("REVIEW_EXPIRED", Denied),
        ("VIOLATION", Denied),
        ("REVIEW_PENDING", ReviewPending),
    ],
)
async def test_what_is_no_exit_is_raised_as_whose_failure_it_is(box, kind, error):
    with pytest.raises(errors.OpenSafeError) as caught:
        await box.tool("End", {"kind": kind, "detail": "why"}, call_id="c1")
    assert type(caught.value) is error
    assert caught.value.call_id == "c1"


def test_the_three_failures_have_nothing_in_common():
    kinds = (CommandFailed, errors.SandboxError, Denied)
    assert all(not issubclass(one, other) for one in kinds for other in kinds if one is not other)


async def test_a_denial_has_rule_value_and_remedy(box):
    with pytest.raises(Denied) as caught:
        await box.tool("End", {"kind": "BLOCKED"})
    no = caught.value
    assert (no.rule, no.value, no.remedy) == ("egress.domain.allowlist", "evil.example.com", "Use a listed domain.")
    assert [rule.id for rule in no.rules] == ["egress.domain.allowlist"]
    assert no.outcome == "blocked"


@pytest.mark.parametrize("kind", ["DEADLINE", "LOST", "BLOCKED", "REVIEW_PENDING"])
async def test_an_error_may_travel_to_another_process(box, kind):
    with pytest.raises(errors.OpenSafeError) as caught:
        await box.tool("End", {"kind": kind, "detail": "why"})
    there = pickle.loads(pickle.dumps(caught.value))
    assert (type(there), str(there), vars(there)) == (type(caught.value), str(caught.value), vars(caught.value))


async def test_a_violation_names_the_rule_that_the_daemon_tells_in_words(box):
    detail = "runtime.exec.deny: nc is not granted (value: /bin/nc (deleted)). Run it (nc) by a call."
    with pytest.raises(Denied) as caught:
        await box.tool("End", {"kind": "VIOLATION", "detail": detail})
    no = caught.value
    assert (no.rule, no.value, no.remedy) == ("runtime.exec.deny", "/bin/nc (deleted)", "Run it (nc) by a call.")
    assert no.outcome == "violation"


@pytest.mark.parametrize("stdin", ["né", "né".encode(), [b"n", "é".encode()]])
async def test_standard_input_is_text_bytes_or_an_iterator(box, stdin):
    assert (await box.tool("Echo", {}, stdin=stdin)).stdout == "né"


async def test_limits_and_arguments_arrive(box, daemon):
    await box.exec(["x"], cwd="/tmp", env={"A": "b"}, user="daemon", timeout=1.5, output_limit=10, tag="t")
    start = daemon.started[-1]
    assert (start.limits.wall_ms, start.limits.output_bytes, start.tag) == (1500, 10, "t")
    assert start.arguments_json == b'{"argv":["x"],"cwd":"/tmp","env":{"A":"b"},"user":"daemon"}'


@pytest.mark.parametrize("timeout", [0, -1, math.inf, math.nan])
async def test_a_time_that_is_none_is_refused(box, timeout):
    with pytest.raises(errors.InvalidArgument, match="out of range"):
        await box.exec(["x"], timeout=timeout)


async def test_a_misspelt_keyword_is_a_type_error(box):
    with pytest.raises(TypeError, match="timeuot"):
        await box.bash("true", timeuot=1)
    with pytest.raises(TypeError, match="sise"):
        AsyncSandbox.create("tester", sise=1)  # type: ignore[call-arg]  # what is tested


async def test_the_result_keeps_what_was_asked_for(box):
    result = await box.tool("Flood", {"chunks": 2}, keep=10)
    assert (len(result.stdout_bytes), result.dropped, result.truncated) == (10, 2 * 65536 - 10, True)


# Streams


async def test_a_stream_gives_text_without_cut_characters_and_then_the_result(box):
    async with box.tool_stream("Bytes", {}) as run:
        pieces = [piece async for piece in run]
    assert "".join(piece.text for piece in pieces) == "né€\N{REPLACEMENT CHARACTER}"
    assert b"".join(piece.data for piece in pieces) == "né€".encode() + b"\xe2\x82"
    assert run.result.ok


async def test_a_stream_has_no_result_before_its_end(box):
    async with box.tool_stream("Hang", {}) as run:
        with pytest.raises(errors.Conflict, match="has not ended"):
            _ = run.result


async def test_a_stream_that_is_left_ends_its_call(box, daemon):
    async with box.tool_stream("Hang", {}):
        assert not daemon.cancelled.is_set()
    await daemon.cancelled.wait()


async def test_a_block_does_not_begin_where_the_call_is_denied(box):
    with pytest.raises(Denied):
        async with box.tool_stream("End", {"kind": "BLOCKED"}):
            raise AssertionError("it began")


async def test_a_call_is_attached_to_from_an_offset(box, daemon):
    async with box.attach("c1", offset=7) as run:
        pieces = [piece async for piece in run]
    assert [(piece.text, piece.missed) for piece in pieces] == [("attached", 2)]
    assert run.result.exit_code == 5
    assert (daemon.attached[-1].call_id, daemon.attached[-1].offset) == ("c1", 7)


# Repeating


async def test_what_the_daemon_could_not_take_is_repeated_under_one_call_id(box, daemon):
    daemon.refusals = 3
    assert (await box.tool("Refuse", {})).stdout == "at last"
    assert len(daemon.started) == 4
    assert len({start.call_id for start in daemon.started}) == 1


async def test_it_is_not_repeated_for_ever(box, daemon):
    daemon.refusals = 9
    with pytest.raises(errors.Unavailable, match="drains") as caught:
        await box.tool("Refuse", {}, call_id="c1")
    assert caught.value.call_id == "c1"
    assert len(daemon.started) == QUICK.attempts


async def test_standard_input_is_never_sent_again(box, daemon):
    daemon.refusals = 1
    with pytest.raises(errors.Unavailable):
        await box.tool("Refuse", {}, stdin="x")
    assert len(daemon.started) == 1


async def test_a_stream_that_has_begun_is_not_repeated(box, daemon):
    with pytest.raises(errors.Unavailable, match="without an outcome"):
        async for _ in box.tool_stream("Vanish", {}):
            pass
    assert len(daemon.started) == 1


async def test_two_calls_have_two_ids(box, daemon):
    await box.exec(["x"])
    await box.exec(["x"])
    assert len({start.call_id for start in daemon.started}) == 2


# Reviews


async def test_a_parked_call_names_its_review_and_its_rules(box):
    with pytest.raises(ReviewPending) as caught:
        await box.tool("Park", {}, call_id="c1")
    parked = caught.value
    assert (parked.review_id, parked.call_id) == (daemon_double.REVIEW, "c1")
    assert [rule.id for rule in parked.rules] == ["tool.exec.package.install.review"]


async def test_a_coroutine_is_told_and_the_call_goes_on_once_approved(box, daemon):
    told = []

    async def on_review(parked):
        told.append(parked.review_id)
        daemon.reviewed.set()

    assert (await box.tool("Park", {}, on_review=on_review)).stdout == "approved"
    assert told == [daemon_double.REVIEW]


async def test_a_function_is_told_beside_the_event_loop(box, daemon):
    loop = asyncio.get_running_loop()
    assert (await box.tool("Park", {}, on_review=lambda _: loop.call_soon_threadsafe(daemon.reviewed.set))).ok


async def test_what_a_callback_raises_ends_the_wait(box):
    async def on_review(parked):
        raise LookupError(parked.review_id)

    with pytest.raises(LookupError):
        await box.tool("Park", {}, on_review=on_review)


async def test_waiting_ends_with_its_time(box):
    with pytest.raises(ReviewPending):
        await box.tool("Park", {}, wait_review=0.01)


async def test_a_session_says_it_for_all_of_its_calls(daemon):
    daemon.reviewed.set()
    waiting = AsyncSession.create("tester", socket=daemon.path, wait_review=math.inf)
    async with waiting as session, session.sandbox() as box:
        assert (await box.tool("Park", {})).stdout == "approved"
        with pytest.raises(ReviewPending):
            await box.tool("Park", {}, wait_review=None)


# Sessions


async def test_what_was_made_here_is_ended_here(daemon):
    async with AsyncSandbox.create("tester", socket=daemon.path):
        assert (daemon.opened, daemon.closed) == (["tester"], [])
    assert daemon.closed == [daemon_double.SESSION]


async def test_what_was_there_already_stays(daemon):
    async with AsyncSandbox.connect(daemon_double.SESSION, daemon_double.SANDBOX, socket=daemon.path) as box:
        assert (await box.exec(["x"])).stdout == "x"
    assert (daemon.opened, daemon.closed) == ([], [])


async def test_a_sandbox_that_is_not_made_leaves_no_session(daemon):
    with pytest.raises(errors.NotPermitted):
        await AsyncSandbox.create("tester", socket=daemon.path, template="forbidden")
    assert daemon.closed == [daemon_double.SESSION]


async def test_what_is_closed_says_so(daemon):
    async with AsyncSession.create("tester", socket=daemon.path) as session:
        box = await session.sandbox()
    for request in (box.exec(["x"]), box.files.read("x"), box.info(), session.sandbox()):
        with pytest.raises(errors.Conflict, match="closed"):
            await request
    await box.aclose()
    await session.aclose()


async def test_no_daemon_is_no_session(tmp_path):
    with pytest.raises(errors.Unavailable, match="opensafe up"):
        await AsyncSandbox.create("tester", socket=tmp_path / "none.sock")


@pytest.mark.parametrize(("asynchronous", "synchronous"), [(AsyncSandbox, Sandbox), (AsyncSession, Session)])
def test_both_sides_offer_the_same(asynchronous, synchronous):
    def offered(kind):
        names = {
            name.removeprefix("a") if name == "aclose" else name for name in vars(kind) if not name.startswith("_")
        }
        return {
            name: set(inspect.signature(getattr(kind, name, None) or kind.aclose).parameters)
            for name in names
            if callable(getattr(kind, name, None) or kind.aclose)
        }

    assert offered(asynchronous) == offered(synchronous)
