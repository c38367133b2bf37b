"""Each new checkpoint reaches every destination, in spite of all that fails meanwhile; what fails is shown."""

import asyncio
import contextlib
import json
import os
import re
import threading

import pytest

from opensafe.audit import shipping as module
from opensafe.audit.checkpoints import read_key
from opensafe.audit.shipping import Shipping
from opensafe.model.checkpoint import opened
from opensafe.model.destination import parse
from tests.harness.collector import Collector, certify, syslog
from tests.harness.records import refusal
from tests.harness.state import State


class Source(State):
    """A log whose checkpoints are shipped to some destinations; each `sign` is seen when the shipper looks."""

    def __init__(self, path):
        super().__init__(path)
        self.changed: asyncio.Queue[bool] = asyncio.Queue()
        self.count = 0

    def grow(self):
        """Another record, signed; the note."""
        self.record(refusal(self.count))
        self.count += 1
        note = self.sign()
        self.changed.put_nowait(True)
        return note

    async def seen(self):
        """Another one, when the shipper has looked at it."""
        note = self.grow()
        await until(self.changed.empty)
        return note

    @contextlib.asynccontextmanager
    async def shipped(self, *destinations, ca="", **more):
        parsed = [parse(text) for text in destinations]
        checkpoint = self.path / "audit" / "checkpoint"
        ships = Shipping(checkpoint, parsed, self.changed.get, str(ca), **{"backoff_s": 0.01} | more)
        task = asyncio.create_task(ships.run())
        try:
            yield ships
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def until(condition):
    while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
        await asyncio.sleep(0.01)


@pytest.fixture
def source(tmp_path):
    return Source(tmp_path / "state")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return certify(tmp_path_factory.mktemp("ca"))


@pytest.fixture
async def collector(certificates):
    async with Collector().serving(certificates[1]) as collector:
        yield collector


async def test_each_checkpoint_is_posted_and_its_signature_holds_there(source, collector, certificates):
    first = source.grow()
    async with source.shipped(f"https://localhost:{collector.port}/in?to=log", ca=certificates[0]) as ships:
        assert await collector.requests.get() == ("POST /in?to=log HTTP/1.1", first)
        for size in (2, 3):
            note = source.grow()
            _, body = await collector.requests.get()
            assert body == note
            assert opened(body, read_key(source.key)).size == size
        await until(lambda: ships.states[0].size == 3)
        [state] = ships.states
        assert (state.destination, state.failures, state.dropped) == (f"https://localhost:{collector.port}/in", 0, 0)


async def test_each_checkpoint_is_a_message_of_syslog(source, tmp_path):
    source.grow()
    loop = asyncio.get_running_loop()
    with syslog(tmp_path / "log") as receiver:
        async with source.shipped(f"syslog:{tmp_path}/log"):
            for size in (1, 2):
                message = await loop.sock_recv(receiver, 65536)
                head, _, line = message.partition(b": ")
                assert head == b"<85>opensafe[%d]" % os.getpid()
                assert opened(json.loads(line)["note"].encode(), read_key(source.key)).size == size
                source.grow()


async def test_the_last_checkpoint_stands_in_a_file(source, tmp_path):
    there = tmp_path / "there"
    source.grow()
    async with source.shipped(f"file:{there}") as ships:
        await until(lambda: ships.states[0].size == 1)
        note = source.grow()
        await until(lambda: ships.states[0].size == 2)
        assert there.read_bytes() == note
        assert there.stat().st_mode & 0o777 == 0o644
        assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["there"]


async def test_what_is_signed_is_shipped_though_nothing_was_signed_at_the_start(source, tmp_path):
    async with source.shipped(f"file:{tmp_path}/there") as ships:
        source.grow()
        await until(lambda: ships.states[0].size == 1)


async def test_a_destination_that_fails_holds_up_no_other_and_gets_all_in_the_end(
    source, collector, certificates, tmp_path
):
    collector.answer = b"HTTP/1.1 503 Busy\r\n\r\n"
    url = f"https://localhost:{collector.port}/"
    source.grow()
    async with source.shipped(url, f"file:{tmp_path}/there", ca=certificates[0]) as ships:
        await until(lambda: ships.states[1].size == 1 and ships.states[0].failures > 1)
        assert ships.states[0].error == "the server answered 503"
        notes = [await source.seen(), await source.seen()]
        await until(lambda: ships.states[1].size == 3)
        assert ships.states[0].size == 0
        collector.answer = b"HTTP/1.1 200 OK\r\n\r\n"
        await until(lambda: ships.states[0].size == 3)
        assert (ships.states[0].failures, ships.states[0].error) == (0, "")
    bodies = [collector.requests.get_nowait()[1] for _ in range(collector.requests.qsize())]
    assert bodies[-2:] == notes


async def test_a_full_queue_loses_the_oldest_and_says_so(source, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_WAITING", 2)
    async with source.shipped(f"syslog:{tmp_path}/log", backoff_s=0.2) as ships:
        source.grow()
        await until(lambda: ships.states[0].failures)
        for _ in range(4):
            await source.seen()
        assert ships.states[0].dropped == 2
        with syslog(tmp_path / "log"):
            await until(lambda: ships.states[0].size == 5)


@pytest.mark.parametrize(
    "answer", [b"nonsense\r\n\r\n", b"", b"HTTP/1.1 \r\n", b"HTTP/1.1 2\xff0 OK\r\n", b"x" * 10_000]
)
async def test_an_answer_that_is_no_http_is_a_failure(source, collector, certificates, answer):
    collector.answer = answer
    source.grow()
    async with source.shipped(f"https://localhost:{collector.port}/", ca=certificates[0]) as ships:
        await until(lambda: ships.states[0].failures)
        assert ships.states[0].error == "the server's answer is no HTTP"


async def test_a_redirect_is_not_followed(source, collector, certificates):
    collector.answer = b"HTTP/1.1 302 Found\r\nLocation: https://localhost/\r\n\r\n"
    source.grow()
    async with source.shipped(f"https://localhost:{collector.port}/", ca=certificates[0]) as ships:
        await until(lambda: ships.states[0].failures)
        assert ships.states[0].error == "the server answered 302"


async def test_a_server_that_does_not_answer_is_given_up_and_tried_again(source, collector, certificates):
    collector.answer = None
    source.grow()
    async with source.shipped(f"https://localhost:{collector.port}/", ca=certificates[0], try_s=1) as ships:
        await until(lambda: ships.states[0].failures)
        assert ships.states[0].error == "not done within 1 s"
        collector.answer = b"HTTP/1.1 200 OK\r\n\r\n"
        await until(lambda: ships.states[0].size == 1)


async def test_a_server_of_another_ca_or_name_gets_nothing(source, collector, certificates, tmp_path):
    source.grow()
    foreign, _ = certify(tmp_path)
    for host, ca in (("localhost", foreign), ("localhost", ""), ("127.0.0.1", certificates[0])):
        async with source.shipped(f"https://{host}:{collector.port}/", ca=ca) as ships:
            await until(lambda: ships.states[0].failures)
            assert "certificate verify failed" in ships.states[0].error.lower()
    assert collector.requests.empty()


@pytest.mark.parametrize(
    ("destination", "error"),
    [
        ("https://localhost:1/", "refused|Connect call failed"),
        ("https://no-such-host.invalid/", "."),
        ("https://" + "a" * 70 + ".invalid/", "."),
        ("syslog:/nowhere/log", "No such file"),
        ("file:/nowhere/checkpoint", "No such file"),
        ("file:/dev/null", "something else"),
    ],
)
async def test_what_can_not_be_reached_is_shown(source, destination, error):
    source.grow()
    async with source.shipped(destination) as ships:
        await until(lambda: ships.states[0].failures)
        assert re.search(error, ships.states[0].error)


async def test_a_ca_that_is_none_is_a_failure(source, tmp_path):
    (tmp_path / "ca.pem").write_text("none")
    source.grow()
    for ca in ("ca.pem", "missing.pem"):
        async with source.shipped("https://localhost:1/", ca=tmp_path / ca) as ships:
            await until(lambda: ships.states[0].failures)
            assert ships.states[0].error


async def refused(source, path):
    async with source.shipped(f"file:{path}") as ships:
        await until(lambda: ships.states[0].failures)
        return ships.states[0].error


async def test_a_file_is_not_replaced_by_less_or_by_another_log(source, tmp_path):
    there = tmp_path / "there"
    other = Source(tmp_path / "other")
    for _ in range(3):
        longer = other.grow()
    there.write_bytes(longer)
    source.grow()
    assert "checkpoint of 3 records" in await refused(source, there)
    source.grow()
    source.grow()
    there.write_bytes(longer.replace(longer.split(b"\n")[2], b"A" * 43 + b"="))
    assert "checkpoint of 3 records, and this log was signed at 3" in await refused(source, there)
    there.write_bytes(longer.replace(b"opensafe/0123", b"opensafe/4567"))
    assert "another log, opensafe/4567" in await refused(source, there)
    there.write_bytes(b"precious")
    assert "something else" in await refused(source, there)
    assert there.read_bytes() == b"precious"
    there.unlink()
    there.symlink_to(tmp_path / "elsewhere")
    assert await refused(source, there)
    assert not (tmp_path / "elsewhere").exists()


async def test_a_file_system_that_hangs_leaves_one_thread_and_stops_nothing(source, tmp_path, monkeypatch):
    hang, hangs = threading.Event(), []

    def blocking(path, note):
        hangs.append(note)
        hang.wait()

    monkeypatch.setattr("opensafe.audit.delivery._to_file", blocking)
    source.grow()
    async with source.shipped(f"file:{tmp_path}/there", try_s=0.05) as ships:
        await until(lambda: ships.states[0].failures > 3)
        assert ships.states[0].error == "an earlier try still hangs"
        assert len(hangs) == 1
    hang.set()


async def test_a_checkpoint_that_is_none_is_not_shipped(source, tmp_path):
    source.grow()
    async with source.shipped(f"file:{tmp_path}/there") as ships:
        await until(lambda: ships.states[0].size == 1)
        (source.path / "audit" / "checkpoint").write_bytes(b"none")
        source.changed.put_nowait(True)
        await until(source.changed.empty)
        source.grow()
        await until(lambda: ships.states[0].size == 2)
