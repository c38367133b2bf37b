"""The synchronous side: one thread that is gone afterwards, usable from anywhere."""

import asyncio
import gc
import queue
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from opensafe import errors
from opensafe.client import CommandFailed, Denied, Sandbox, Session
from tests.unit.client import daemon_double


def _threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("opensafe-client")]


@pytest.fixture
def daemon(tmp_path):
    """A double in a thread of its own: the tests' thread waits for its answers."""
    ready: queue.SimpleQueue[Any] = queue.SimpleQueue()

    async def serve():
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        async with daemon_double.running(tmp_path / "opensafe.sock") as double:
            ready.put((double, lambda: loop.call_soon_threadsafe(ended.set)))
            await ended.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    double, end = ready.get()
    yield double
    end()
    thread.join()


def test_ten_lines(daemon):
    with Sandbox.create("tester", socket=daemon.path) as box:
        assert box.exec(["a", "b"]).stdout == "a b"
        with pytest.raises(Denied) as caught:
            box.tool("End", {"kind": "BLOCKED"})
        assert caught.value.rule == "egress.domain.allowlist"
        with pytest.raises(CommandFailed):
            box.exec(["a"], check=True)
        assert len(_threads()) == 1
    assert _threads() == []
    assert daemon.closed == [daemon_double.SESSION]


def test_a_closed_one_says_so_and_closes_again(daemon):
    box = Sandbox.create("tester", socket=daemon.path)
    box.close()
    box.close()
    with pytest.raises(errors.Conflict, match="closed"):
        box.exec(["x"])


def test_one_that_is_not_made_leaves_no_thread(tmp_path):
    with pytest.raises(errors.Unavailable):
        Sandbox.create("tester", socket=tmp_path / "none.sock")
    assert _threads() == []


def test_sandboxes_of_one_session_share_its_thread(daemon):
    with Session.create("tester", socket=daemon.path) as session:
        with session.sandbox() as one, session.sandbox() as other:
            assert one.exec(["1"]).stdout + other.exec(["2"]).stdout == "12"
            assert len(_threads()) == 1
        assert len(_threads()) == 1
    assert _threads() == []


def test_many_threads_use_one_sandbox(daemon):
    with Sandbox.create("tester", socket=daemon.path) as box, ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda number: box.exec([str(number)]).stdout, range(40))) == [str(n) for n in range(40)]


def test_many_sandboxes_at_once(daemon, capfd):
    def run(number):
        with Sandbox.create("tester", socket=daemon.path) as box:
            return box.exec([str(number)]).stdout

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, range(24))) == [str(number) for number in range(24)]
    assert _threads() == []
    assert capfd.readouterr().err == ""  # of event loops that disturb each other


async def test_it_works_inside_a_running_event_loop(daemon):
    with Sandbox.create("tester", socket=daemon.path) as box:
        assert box.exec(["x"]).stdout == "x"


def test_a_stream_is_an_iterator(daemon):
    with Sandbox.create("tester", socket=daemon.path) as box:
        assert "".join(piece.text for piece in box.tool_stream("Bytes", {})).startswith("né€")
        with box.tool_stream("Cat", {}, interactive=True) as run:
            run.send("typed")
            run.close_stdin()
            assert [piece.text for piece in run] == ["typed"]
        assert run.result.ok


def test_a_stream_that_is_left_ends_its_call(daemon):
    with Sandbox.create("tester", socket=daemon.path) as box, box.tool_stream("Hang", {}) as run:
        assert run.call_id


def test_a_callback_may_use_the_sandbox(daemon):
    with Sandbox.create("tester", socket=daemon.path) as box:
        seen = []

        def on_review(parked):
            seen.append(box.exec(["meanwhile"]).stdout)
            raise LookupError(parked.review_id)

        with pytest.raises(LookupError):
            box.tool("Park", {}, on_review=on_review)
        assert seen == ["meanwhile"]
    assert _threads() == []


def test_a_callback_may_close_the_sandbox(daemon):
    box = Sandbox.create("tester", socket=daemon.path)
    (thread,) = _threads()
    with pytest.raises(errors.Conflict, match="closed"):
        box.tool("Park", {}, on_review=lambda _: box.close())
    thread.join(10)
    assert not thread.is_alive()


def test_who_comes_too_late_is_told_and_never_left_waiting(daemon):
    def use(box):
        while True:
            box.exec(["x"])

    for _ in range(5):
        box = Sandbox.create("tester", socket=daemon.path)
        with ThreadPoolExecutor(4) as pool:
            using = [pool.submit(use, box) for _ in range(4)]
            box.exec(["y"])
            box.close()
            for one in using:
                with pytest.raises(errors.Conflict, match="closed"):
                    one.result(timeout=30)


def test_closing_does_not_hide_what_went_wrong(daemon):
    with pytest.raises(LookupError), Sandbox.create("tester", socket=daemon.path):
        raise LookupError


def test_one_that_is_forgotten_warns_and_ends_its_thread(daemon):
    box = Sandbox.create("tester", socket=daemon.path)
    (thread,) = _threads()
    ending = [box]
    del box
    with pytest.warns(ResourceWarning, match="not closed"):
        ending.clear()
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


def test_a_program_that_forgets_ends(daemon):
    text = f"from opensafe.client import Sandbox\nbox = Sandbox.create('t', socket={str(daemon.path)!r})\n"
    text += "print(box.exec(['x']).stdout)"
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "x\n", "")
