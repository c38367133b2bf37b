"""The campaign's parts that need no sandbox: what is drawn, what is expected, what is counted, what is kept."""

import asyncio
import struct
import subprocess
import sys
from typing import cast

import pytest

from opensafe.cli import campaigning
from opensafe.cli.campaigning import Where
from opensafe.errors import Conflict, DriverError, HostUnsuitable, InvalidArgument
from opensafe.proof.campaign import (
    answers,
    arena,
    campaign,
    corpus,
    figures,
    generator,
    page,
    reaching,
    running,
    tool_calls,
    wire,
)
from opensafe.proof.campaign import notes as notes_of
from opensafe.proof.campaign.answers import Expectation, Said
from opensafe.proof.campaign.batch import Batch, Done, Kind
from opensafe.proof.campaign.campaign import Result
from opensafe.proof.campaign.canary import Canary
from opensafe.proof.campaign.gated import Gated
from opensafe.proof.campaign.local import Local
from opensafe.proof.campaign.minimise import minimise
from opensafe.proof.campaign.notes import Notes
from opensafe.proof.campaign.oracles import Finding, Oracle
from opensafe.proof.campaign.progress import Progress, Settings
from opensafe.proof.campaign.sampling import sampled
from opensafe.proof.campaign.selfcheck import SelfCheck
from opensafe.proof.campaign.site import Site
from opensafe.proof.campaign.wire import Answer, Sequence, SystemCall
from opensafe.warden.sandbox.syscalls import NUMBERS

DEFAULT = Expectation("default")
GETPID, UNSHARE, MOUNT, OPENAT2 = (NUMBERS[name] for name in ("getpid", "unshare", "mount", "openat2"))
PLACES = {"canary": "/c", "listener": "/c/s", "sentinel": "127.200.0.1", "other": "192.0.2.2", "port": "9"}


def drawn(filtered=True, count=300):
    return [
        generator.sequence(corpus.data_of(3, number, (), generator.BYTES), filtered=filtered) for number in range(count)
    ]


def test_the_same_seed_is_the_same_runs_and_another_is_not():
    assert drawn(count=20) == drawn(count=20)
    data = corpus.data_of(3, 1, (), tool_calls.BYTES)
    assert data != corpus.data_of(4, 1, (), tool_calls.BYTES)
    assert tool_calls.calls(data, PLACES) == tool_calls.calls(data, PLACES)


def test_half_of_the_runs_are_drawn_from_what_is_kept():
    kept = (bytes(200), b"\1" * 200)
    drawn = [corpus.data_of(3, run, kept, 300) for run in range(100)]
    assert drawn == [corpus.data_of(3, run, kept, 300) for run in range(100)]
    near = [data for data in drawn if data.count(0) > 60 or data.count(1) > 60]
    assert 25 < len(near) < 75
    assert all(0 < len(data) <= 300 for data in drawn)


def test_a_campaign_is_not_gone_on_with_under_other_kept_inputs():
    assert corpus.of("") == corpus.Kept()
    assert corpus.of(corpus.kept().digest) == corpus.kept()
    with pytest.raises(InvalidArgument, match="other kept inputs"):
        corpus.of("0" * 64)


def test_every_byte_string_is_a_sequence_that_is_long_enough_and_that_the_executor_takes():
    for data in (b"", b"\0", b"\xff" * 2000, *(bytes([value]) * 64 for value in range(256))):
        made = generator.sequence(data)
        assert generator.LEAST <= len(made.calls) <= wire.CALLS_MAX
        assert len(made.pokes) <= wire.POKES_MAX
        for place, call in enumerate(made.calls):
            meant = [value for at, value in enumerate(call.arguments) if call.earlier >> at & 1]
            assert all(value < place for value in meant)
        assert len(tool_calls.calls(data, PLACES)) >= tool_calls.LEAST


def test_under_the_filter_what_kills_stands_at_the_end_only():
    for sequence in drawn():
        said = [DEFAULT.says(call.number, call.arguments) for call in sequence.calls]
        assert Said.FATAL not in said[: generator.LEAST]
        assert Said.FATAL not in said[:-1]
    assert any(DEFAULT.says(call.number) is Said.FATAL for one in drawn(filtered=False) for call in one.calls)


def test_what_is_drawn_reaches_widely_and_uses_what_calls_give():
    calls = [call for one in drawn(count=1000) for call in one.calls]
    assert len({call.number for call in calls}) > 400
    assert {Said.ALLOWED, Said.REFUSED, Said.FATAL} == {DEFAULT.says(call.number, call.arguments) for call in calls}
    assert sum(call.earlier > 0 for call in calls) > 1000


def test_no_call_waits_for_what_does_not_come():
    for call in (call for one in drawn() for call in one.calls):
        if call.number == NUMBERS["wait4"]:
            assert call.arguments[2] & 1  # WNOHANG
        if call.number in (NUMBERS["kill"], NUMBERS["tkill"], NUMBERS["tgkill"]):
            assert not call.earlier
            assert call.arguments[0] < 1 << 31


def test_the_first_run_of_a_batch_reaches_for_all_that_is_watched():
    paths = {call.arguments[0] for call in reaching.sequence().calls if call.number == NUMBERS["open"]}
    assert {arena.path(at) for at, text in enumerate(arena.PATHS) if text.endswith("{canary}/nonce")} <= paths
    assert len(reaching.sequence().calls) >= generator.LEAST
    assert any("/c/nonce" in str(call.arguments) for call in tool_calls.reaching(PLACES))


# The executor's protocol


def ended(number, results, status=0, made=None, landed=b""):
    made = len(results) if made is None else made
    head = struct.pack("<II", 0x4E474542, number)
    tail = struct.pack("<IIiHHII", 0x53444E45, number, status, made, len(results), len(landed), 0)
    return head + tail + struct.pack(f"<{len(results)}q", *results) + landed


def test_a_sequence_has_less_time_than_the_executor_has_patience():
    assert wire.encode(b"", [], running.LIMIT_US)
    for limit in (0, wire.PATIENCE_US):
        with pytest.raises(ValueError, match="us are none, or beyond"):
            wire.encode(b"", [], limit)


def test_answers_are_read_and_the_one_that_is_missing_is_named():
    told = wire.decode(ended(4, [1, -2], landed=b"seen") + struct.pack("<II", 0x4E474542, 5))
    assert told.answers == (Answer(id=4, status=0, made=2, results=(1, -2)),)
    assert told.under_way == 5
    assert wire.decode(ended(4, [])).under_way is None


def test_an_answer_that_is_cut_anywhere_is_none():
    whole = ended(4, [1, -2], landed=b"seen")
    for length in range(8, len(whole)):
        told = wire.decode(whole[:length])
        assert (told.answers, told.under_way) == ((), 4)


@pytest.mark.parametrize(
    "output",
    [b"garbage!", ended(4, [1])[8:], struct.pack("<II", 0x4E474542, 4) + ended(5, [])[8:], ended(4, [1], made=0)],
)
def test_what_the_executor_does_not_write_is_an_error(output):
    with pytest.raises(DriverError):
        wire.decode(output)


# Oracle 9


def misses(number, arguments=(), results=(0,), status=0, made=1):
    sequence = Sequence((SystemCall(number, arguments),))
    answer = Answer(id=0, status=status, made=made, results=results)
    return DEFAULT.misses(sequence, answer)


def test_a_refused_call_has_exactly_the_answer_of_its_number():
    assert misses(UNSHARE, results=(-18,)) == []
    assert misses(UNSHARE, results=(0,))
    assert misses(UNSHARE, results=(-1,))
    assert misses(OPENAT2, results=(-38,)) == []
    assert misses(OPENAT2, results=(-18,))
    assert misses(0x40000000 | GETPID, results=(-18,)) == []
    assert misses(0x40000000 | GETPID, results=(7,))
    assert misses(GETPID, results=(7,)) == []


def test_a_fatal_call_does_not_come_back_and_ends_by_its_signal():
    assert misses(MOUNT, results=(), status=31) == []
    assert misses(MOUNT, results=(), status=0)
    assert misses(MOUNT, results=(-1,), status=31)


def test_arguments_that_earlier_calls_gave_count_as_what_they_were():
    clone, namespace = NUMBERS["clone"], 0x10000000
    assert DEFAULT.says(clone, (17,)) is Said.ALLOWED
    assert DEFAULT.says(clone, (namespace,)) is Said.REFUSED
    sequence = Sequence((SystemCall(GETPID), SystemCall(clone, (0,), 1)))
    answer = Answer(id=0, status=0, made=2, results=(namespace, 0))
    assert [miss.at for miss in DEFAULT.misses(sequence, answer)] == [1]
    assert answers.arguments_of(sequence, 1, answer.results)[0] == namespace


# Figures


def test_of_none_in_8000_the_bound_is_0_037_percent():
    assert figures.upper_bound(0, 8000) == pytest.approx(0.000374, abs=1e-6)
    assert figures.upper_bound(0, 100_000) == pytest.approx(0.00003, abs=1e-6)
    assert figures.upper_bound(2, 200) == pytest.approx(0.0311, abs=1e-4)
    assert figures.upper_bound(3, 3) == 1.0


CHECK = SelfCheck(name="<planted>", wanted=(Oracle.NONCE,), missing=(), findings=())
DONE = (
    Done(number=0, kind=Kind.GATED, completed=10, rules={"a.b": 3}, tools={"Bash: allow": 3}),
    Done(number=1, kind=Kind.SHIPPED, completed=20, short=(101,), calls={39: 5, 4000: 1}, answers={0: 5, 38: 1}),
)


def result(done=DONE, checks=(CHECK,), runs=30):
    return Result(runs=runs, seed=1, engine="local", checks=checks, done=done, minimal=(), seconds=2.0)


def changed(**fields):
    return (DONE[0], Done(**{"number": 1, "kind": Kind.SHIPPED, "completed": 20, **fields}))


def test_a_campaign_is_good_only_where_everything_is():
    assert figures.summary(result())["ok"]
    assert figures.summary(result())["system_call_numbers"] == 2
    assert not figures.summary(result(runs=31))["ok"]
    assert not figures.summary(result(checks=()))["ok"]
    assert not figures.summary(result(done=changed(lost=(102,))))["ok"]
    assert not figures.summary(result(done=changed(completed=31), runs=30))["ok"]  # too few of them are gated
    silent = SelfCheck(name="x", wanted=(Oracle.NONCE,), missing=(Oracle.NONCE,), findings=())
    assert not figures.summary(result(checks=(CHECK, silent)))["ok"]


def test_every_oracle_but_that_of_a_sandbox_that_ends_itself_is_an_escape():
    for oracle in Oracle:
        found = (Finding(oracle=oracle, what="x", batch=1),)
        told = figures.summary(result(done=changed(findings=found)))
        assert told["ok"] is (oracle is Oracle.DEATH)
        assert told["escapes"] == (oracle is not Oracle.DEATH)
        assert told["sandboxes_that_ended"] == (oracle is Oracle.DEATH)


def test_the_page_escapes_what_it_is_given():
    found = (Finding(oracle=Oracle.NONCE, what="<script>", batch=1),)
    text = page.page(result(done=changed(findings=found)))
    assert "&lt;script&gt;" in text
    assert "<script>" not in text
    assert "&lt;planted&gt;" in text
    assert "getpid" in page.page(result())


# Progress


SETTINGS = Settings(runs=25, seed=1, size=10)


def test_a_campaign_goes_on_after_the_last_whole_line(tmp_path):
    progress = Progress.open(tmp_path, SETTINGS)
    assert [(one.number, one.size) for one in progress.next()] == [(0, 10), (1, 10), (2, 5)]
    assert progress.add(Done(number=1, kind=Kind.SHIPPED, completed=9))
    progress.close()
    with (tmp_path / "batches.jsonl").open("ab") as file:
        file.write(b'{"number":0,"kind":"gat')
    again = Progress.open(tmp_path, SETTINGS)
    assert list(again.done) == [1]
    assert [one.number for one in again.next()] == [0, 2]
    again.add(Done(number=0, kind=Kind.GATED, completed=10))
    again.close()
    third = Progress.open(tmp_path, SETTINGS)
    assert sorted(third.done) == [0, 1]
    third.close()


def test_no_batch_counts_twice_and_short_runs_are_made_up_for():
    progress = Progress(None, SETTINGS)
    for number, completed in enumerate((10, 8, 5)):
        assert progress.add(Done(number=number, kind=Kind.SHIPPED, completed=completed))
    assert not progress.add(Done(number=0, kind=Kind.SHIPPED, completed=10))
    assert progress.completed == 23
    assert [(one.number, one.size) for one in progress.next()] == [(3, 2)]
    progress.add(Done(number=3, kind=Kind.SHIPPED, completed=2))
    assert progress.next() == []


def test_another_campaign_in_the_same_place_is_refused(tmp_path):
    Progress.open(tmp_path, SETTINGS).close()
    with pytest.raises(InvalidArgument, match="--runs 25 --seed 1 --size 10, corpus none"):
        Progress.open(tmp_path, Settings(runs=25, seed=2, size=10))


def test_a_quarter_of_all_batches_is_gated():
    kinds = [Batch(seed=1, number=number).kind for number in range(80)]
    assert kinds.count(Kind.GATED) == kinds.count(Kind.PEELED) == 20


def test_notes_belong_to_one_campaign_at_a_time_and_name_only_what_one_makes(tmp_path):
    with Notes.open(tmp_path / "made") as notes:
        with pytest.raises(Conflict), Notes.open(tmp_path / "made"):
            pass
        with pytest.raises(ValueError, match="nothing that a campaign makes"):
            notes.add(tmp_path)


def test_nothing_is_touched_where_a_campaign_runs(tmp_path):
    half = b'{"number":0,"kind":"gat'
    (tmp_path / "batches.jsonl").write_bytes(half)
    here = Where(cluster=False, address=None, width=1)
    with Notes.open(tmp_path / "made"), pytest.raises(Conflict):
        campaigning.run(SETTINGS, here, resume=tmp_path, html=None, json=True)
    assert (tmp_path / "batches.jsonl").read_bytes() == half
    assert not (tmp_path / "campaign.json").exists()


STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
sys.stdin.read()
"""


async def test_a_daemon_of_an_earlier_campaign_that_does_not_end_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(notes_of, "_STOP_S", 0.2)
    words = (sys.executable, "-c", STUBBORN, str(tmp_path / "opensafe.toml"))
    process = await asyncio.create_subprocess_exec(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert await process.stdout.readline() == b"deaf\n"
        with pytest.raises(HostUnsuitable, match=rf"does not end.*process {process.pid}"):
            await notes_of._sweep_daemon(tmp_path)
    finally:
        process.stdin.close()
        await process.wait()
    assert tmp_path.exists()


class Quick:
    """An engine whose batches are as long as they are asked to be, but for the first of a campaign."""

    async def selfcheck(self, _, done):
        done(CHECK)
        return (CHECK,)

    async def run(self, batches):
        for batch in batches:
            yield Done(number=batch.number, kind=batch.kind, completed=batch.size - (batch.number == 2))

    async def minimise(self, *_):
        return None


async def test_what_is_told_counts_batches_alone_and_those_that_were_done_before():
    progress = Progress(None, SETTINGS)
    progress.add(Done(number=0, kind=Kind.GATED, completed=10))
    told: list[str] = []
    await campaign.run(Quick(), progress, "quick", told.append)
    assert told == [
        "planted: <planted>",
        "2 of 3 batches (shipped 1)",
        "3 of 3 batches (peeled 2)",
        "4 of 4 batches (shipped 3)",
    ]


# A batch that has to be tried again


class Failing:
    """A daemon whose first tries end in an error, after something was found; later ones find nothing more."""

    def __init__(self, times):
        self.left = times

    async def run(self, batch, *, found):
        self.left -= 1
        if self.left >= 0:
            found[Finding(oracle=Oracle.NONCE, what=f"try {self.left}", batch=batch.number)] = None
            raise DriverError("lost its way")
        return Done(number=batch.number, kind=batch.kind, completed=batch.size, findings=tuple(found))


@pytest.mark.parametrize(("times", "completed", "lost"), [(0, 4, 0), (1, 4, 0), (2, 0, 4)])
async def test_what_a_try_found_counts_however_the_batch_ends(times, completed, lost):
    done = await Local(cast(Site, None), cast(Gated, Failing(times)), 1).one(Batch(seed=1, number=0, size=4))
    assert (done.completed, len(done.lost)) == (completed, lost)
    assert len(done.findings) == len(done.faults) == times
    assert figures.summary(result(done=(done,), runs=1))["escapes"] == (times > 0)


async def test_what_a_look_raises_is_not_lost_with_it():
    looked = asyncio.Event()

    async def look():
        looked.set()
        raise DriverError("blind")

    with pytest.raises(DriverError, match="blind"):
        async with sampled(0.01, look):
            await looked.wait()


async def test_oracles_are_asked_for_as_long_as_it_lasts():
    looks: list[None] = []
    often = asyncio.Event()

    async def look():
        looks.append(None)
        if len(looks) == 3:
            often.set()

    async with sampled(0.001, look):
        await often.wait()
    after = len(looks)
    await asyncio.sleep(0)
    assert len(looks) == after


# The minimiser, and the canary


async def test_the_minimiser_keeps_no_run_and_no_call_too_many():
    bad = SystemCall(MOUNT)
    fine = SystemCall(GETPID)
    runs = {number: Sequence((fine,) * 5) for number in range(7)}
    runs[4] = Sequence((fine, fine, bad, fine, fine))
    asked = []

    async def raises(wanted):
        asked.append(wanted)
        return any(bad in sequence.calls for sequence in wanted.values())

    found = await minimise(Oracle.POLICY, runs, raises)
    assert found.runs == (4,)
    assert found.sequence.calls == (fine, fine, bad)
    assert len(asked) < 12


async def test_the_minimiser_keeps_the_runs_that_go_before_where_they_are_needed():
    first, second = SystemCall(MOUNT), SystemCall(UNSHARE)
    runs = {0: Sequence((SystemCall(GETPID),)), 1: Sequence((first,)), 2: Sequence((second, SystemCall(GETPID)))}

    async def raises(wanted):
        calls = [call for sequence in wanted.values() for call in sequence.calls]
        return first in calls and second in calls

    found = await minimise(Oracle.POLICY, runs, raises)
    assert found.runs == (0, 1, 2)
    assert found.sequence.calls == (second,)
    assert await minimise(Oracle.POLICY, {0: runs[0]}, raises) is None


def test_a_canary_tells_what_was_done_to_it():
    with Canary.planted() as canary:
        assert list(canary.look()) == []
        (canary.directory / "new").touch()
        assert {finding.oracle for finding in canary.look()} == {Oracle.CANARY}
        canary.settle()
        assert list(canary.look()) == []
        secrets = [secret.encode() for secret in canary.secrets.values()]
        assert len(list(canary.heard(b"nothing", b"...".join(secrets)))) == len(secrets)
        assert list(canary.heard(b"nothing")) == []
    assert not canary.directory.exists()
