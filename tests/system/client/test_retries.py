"""The daemon dies in the middle: what it had not taken is repeated, what it had is never run twice."""

import asyncio
import json

import pytest

from opensafe.audit.segment import segment_paths
from opensafe.client import AsyncSandbox, CallLost, Retry, Unavailable
from tests.harness.daemon import running, signal_process
from tests.system.exec.support import eventually

pytestmark = [pytest.mark.root, pytest.mark.runsc]

PATIENT = Retry(attempts=60, most_s=1.0)


@pytest.fixture(scope="module")
def daemon():
    """One whose front dies in each of these tests."""
    with running() as daemon:
        yield daemon


def on_record(daemon, box, call_id):
    """How often the audit log has the call decided on, and ended."""
    lines = b"".join(path.read_bytes() for path in segment_paths(daemon.state)).splitlines()
    kinds = [
        record["kind"]
        for record in map(json.loads, lines)
        if (record.get("session_id"), record.get("call_id")) == (box.session.session_id, call_id)
    ]
    return kinds.count("decision"), kinds.count("outcome")


async def test_a_call_made_while_the_front_is_gone_runs_once_when_there_is_another(daemon):
    async with AsyncSandbox.create("tester", socket=daemon.socket_of("agent"), retry=PATIENT) as box:
        before = daemon.starts()
        await asyncio.to_thread(signal_process, daemon.child("front"))
        result = await box.bash("echo once | tee -a log", call_id="c1")
        assert (result.exit_code, result.stdout) == (0, "once\n")
        assert (await box.bash("echo once | tee -a log", call_id="c1")).exit_code == 0
        assert daemon.starts() == before + 1
        assert on_record(daemon, box, "c1") == (1, 1)
        assert await box.files.read("log") == "once\n"


async def test_a_call_under_way_is_lost_and_not_run_again(daemon):
    async with AsyncSandbox.create("tester", socket=daemon.socket_of("agent"), retry=PATIENT) as box:
        before = daemon.starts()
        doing = asyncio.create_task(box.bash("echo once >> log; sleep 1000", call_id="c1"))
        await eventually(lambda: asyncio.to_thread(daemon.guest_processes, box.sandbox_id), lambda it: "sleep" in it)
        await asyncio.to_thread(signal_process, daemon.child("front"))
        with pytest.raises(CallLost) as caught:
            await doing
        assert caught.value.call_id == "c1"
        assert daemon.starts() == before + 1
        assert on_record(daemon, box, "c1") == (1, 1)
        assert await box.files.read("log") == "once\n"
        assert (await box.info()).state == "running"


async def test_a_stream_that_has_begun_is_not_repeated(daemon):
    async with AsyncSandbox.create("tester", socket=daemon.socket_of("agent"), retry=PATIENT) as box:
        before = daemon.starts()
        async with box.stream("echo begun; sleep 1000") as run:
            assert (await anext(run)).text == "begun\n"
            await asyncio.to_thread(signal_process, daemon.child("front"))
            with pytest.raises(Unavailable):
                await anext(run)
        await box.files.write("file", "well")  # which waits for another front
        assert (await box.bash("cat file")).stdout == "well"
        assert daemon.starts() == before + 3
