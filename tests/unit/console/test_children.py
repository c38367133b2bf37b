"""Commands that are run for a request: bounded, and gone when it is."""

import asyncio
import json
import os
import pathlib
import select
import sys

import pytest
from starlette.requests import Request

from opensafe.console import candidates, children
from opensafe.console.candidates import Candidate, Replayed
from opensafe.console.children import Done, Turns, run, while_there
from opensafe.errors import Conflict, LimitExceeded
from opensafe.policy import archive
from opensafe.policy.manifest import ALLOWED, WASM
from opensafe.proof.private import programs
from tests.harness.policy import compile_bomb, repack


def request(*messages):
    """One whose browser says these, and then nothing."""
    left = list(messages)

    async def receive():
        if not left:
            await asyncio.Event().wait()
        return left.pop(0)

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


async def test_a_command_is_run_and_tells_its_end():
    done = await run(("--version",))
    assert (done.status, done.said) == (0, "")
    assert done.out.startswith(b"opensafe ")


async def test_what_it_says_of_a_failure_is_kept():
    done = await run(("policy", "replay", "--candidate", "/nowhere", "--json"))
    assert (done.status > 1, done.out) == (True, b"")
    assert "/nowhere" in done.said


@pytest.fixture
def waiting(tmp_path):
    """Words of a command that waits for what nobody writes, and the end to write to, once it does."""
    fifo = tmp_path / "records"
    os.mkfifo(fifo)
    words = ("policy", "replay", "--candidate", programs().bundle, "--records", fifo, "--json")
    return words, lambda: os.open(fifo, os.O_WRONLY)


async def begun(words, opened):
    """The running command as a task, the write end, and a descriptor that says when its reader is gone."""
    task = asyncio.create_task(run(words))
    return task, await asyncio.to_thread(opened)


def left(end):
    """Whether nobody reads there any more, soon."""
    poll = select.poll()
    poll.register(end, select.POLLERR)
    return bool(poll.poll(30_000))


async def test_a_child_ends_with_its_task(waiting):
    task, end = await begun(*waiting)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert left(end)
    os.close(end)


async def test_a_child_ends_with_a_console_that_is_killed(waiting):
    words, opened = waiting
    script = "import asyncio, sys; from opensafe.console.children import run; asyncio.run(run(sys.argv[1:]))"
    console = await asyncio.create_subprocess_exec(sys.executable, "-c", script, *words)
    end = await asyncio.to_thread(opened)
    console.kill()
    await console.wait()
    assert left(end)
    os.close(end)


async def test_a_child_ends_in_time(waiting, monkeypatch):
    task, end = await begun(*waiting)
    monkeypatch.setattr(children, "TIME_S", 0.0)
    late = asyncio.create_task(run(waiting[0]))
    with pytest.raises(LimitExceeded, match="too long"):
        await late
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    os.close(end)


async def test_what_it_prints_is_bounded(monkeypatch):
    monkeypatch.setattr(children, "OUT_MAX", 100)
    with pytest.raises(LimitExceeded, match="printed too much"):
        await run(("--help",))
    monkeypatch.setattr(children, "OUT_MAX", 100_000)
    assert (await run(("--help",))).status == 0


async def test_a_bundle_that_is_made_to_be_huge_ends_its_child_alone(tmp_path):
    path = tmp_path / "bomb.tar.gz"
    members = archive.unpack(archive.read_file(pathlib.Path(programs().bundle)), ALLOWED)
    path.write_bytes(repack({**members, WASM: compile_bomb()}))
    done = await run(("policy", "replay", "--candidate", path, "--records", os.devnull, "--json"))
    assert (done.status < 0, done.out) == (True, b"")


async def test_an_ordinary_bundle_has_room(waiting):
    words, _ = waiting
    done = await run((*words[:-2], os.devnull, "--json"))
    assert done.status == 0


def test_one_at_a_time_for_each_and_a_few_in_all():
    turns = Turns()
    with turns.turn("one"):
        with pytest.raises(Conflict), turns.turn("one"):
            pass
        with turns.turn("other"), pytest.raises(LimitExceeded), turns.turn("third"):
            pass
        with turns.turn("third"):
            pass
    with turns.turn("one"):
        pass


async def test_work_ends_where_the_browser_goes():
    ended = asyncio.Event()

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    assert await while_there(request({"type": "http.disconnect"}), work()) is None
    assert ended.is_set()


async def test_a_child_ends_where_the_browser_goes(waiting):
    words, opened = waiting
    browser: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    asked = Request({"type": "http", "method": "POST", "headers": []}, browser.get)
    task = asyncio.create_task(while_there(asked, run(words)))
    end = await asyncio.to_thread(opened)
    browser.put_nowait({"type": "http.disconnect"})
    assert await task is None
    assert left(end)
    os.close(end)


async def test_work_is_done_where_the_browser_waits():
    async def work():
        return "done"

    assert await while_there(request(), work()) == "done"


SUMMARY = {
    "candidate_revision": "1-0",
    "candidate_number": 1,
    "candidate_digest": "d",
    "candidate_key": "",
    **dict.fromkeys(("decisions", "changed", "loosened", "tightened", "other_rules", "calls_per_s"), 0),
}
DETAILS = {"skipped": 0, "transitions": {"allow>block": 1}, "rules": {}, "changes": []}


def told(**details):
    return json.dumps({"summary": SUMMARY, "details": {**DETAILS, **details}}).encode()


def read(out, status=0, said=""):
    kept = Candidate(path=pathlib.Path("/tmp/x"), name="new.tar.gz", digest="d", size=1)
    return candidates._read(Done(status=status, out=out, said=said), Replayed, kept)


def test_a_report_is_read():
    report, why = read(told())
    assert (report.details.transitions, why) == ({"allow>block": 1}, "")


@pytest.mark.parametrize(
    "out",
    [b"", b"{}", b"[" * 100_000, told(transitions={"allow>other": 1}), told(changes=[{}]), told(rules={"a": "b"})],
)
def test_what_a_child_in_others_hands_prints_is_no_report(out):
    report, why = read(out)
    assert report is None
    assert why.startswith("the command's report can't be read")


@pytest.mark.parametrize(
    ("status", "said", "why"),
    [
        (193, "opensafe: hash: no; got /tmp/x\n", "hash: no; got new.tar.gz"),
        (193, "", "the command ended with 193"),
        (-6, "", "it was ended by signal 6: a bundle may use so much and no more."),
    ],
)
def test_why_there_is_no_report_is_told_in_the_commands_words(status, said, why):
    assert read(told(), status, said) == (None, why)
