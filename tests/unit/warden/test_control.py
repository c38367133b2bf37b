"""The control socket's client against sentries that a guest has taken over."""

import asyncio
import contextlib
import tempfile

import pytest

from opensafe.config import Paths
from opensafe.errors import DriverError
from opensafe.model.ids import new_id
from opensafe.warden.sandbox import control
from opensafe.warden.sandbox.driver import GuestProcess
from opensafe.warden.sandbox.layout import Layout

OK = b'{"success":true,"err":"","result":null}'


@pytest.fixture
def sentry():
    """Starts a sentry that answers every request with what it is told to; gives a driver and the sandbox's id."""
    with tempfile.TemporaryDirectory(prefix="opensafe-control-") as root:
        layout = Layout.of(Paths(run=root))
        layout.runsc_root.mkdir()
        sandbox_id = new_id("sb")

        @contextlib.asynccontextmanager
        async def start(answer):
            async def serve(reader, writer):
                with contextlib.suppress(ConnectionError):
                    while await reader.read(65536):
                        if callable(answer):
                            await answer(writer)
                        else:
                            writer.write(answer)
                        await writer.drain()
                writer.close()

            path = str(layout.control_socket(sandbox_id))
            async with await asyncio.start_unix_server(serve, path):
                yield control.ControlDriver(layout, deadline_s=0.3), sandbox_id

        yield start


async def test_the_benign_twin(sentry):
    answer = b'{"success":true,"err":"","result":[{"uid":0,"pid":1,"ppid":0,"cmd":"init","threads":[1]}]}'
    async with sentry(answer) as (driver, sandbox_id):
        assert await driver.processes(sandbox_id) == (GuestProcess(1, 0, "init"),)


@pytest.mark.parametrize(
    "answer",
    [
        b"}",
        b"null}",
        b'{"success":true,"result":7}',
        b'{"success":true,"result":null}',
        b'{"success":true,"result":[{"pid":"1","ppid":0}]}',
        b'{"success":true,"result":[{"pid":1}]}',
        b'{"success":"yes","result":[]}',
        b'{"success":false,"err":"' + b"e" * 5000 + b'"}',
        b'{"success":false}',
        b"{}",
        b"\xff}",
        b'{"a":' * 5000 + b"}",
    ],
    ids=range(12),
)
async def test_a_malformed_answer_is_a_driver_error(sentry, answer):
    async with sentry(answer) as (driver, sandbox_id):
        with pytest.raises(DriverError) as error:
            async with asyncio.timeout(5):
                await driver.processes(sandbox_id)
        assert len(str(error.value)) < 1000


async def test_an_endless_answer_is_cut(sentry):
    async def flood(writer):
        while True:
            writer.write(b"[" * 65536)
            await writer.drain()

    async with sentry(flood) as (driver, sandbox_id):
        with pytest.raises(DriverError, match="too large"):
            await driver.processes(sandbox_id)


async def test_an_answer_in_bytes_is_given_up(sentry):
    async def drip(writer):
        while True:
            writer.write(b"}")
            await writer.drain()
            await asyncio.sleep(0)

    async with sentry(drip) as (driver, sandbox_id):
        with pytest.raises(DriverError):
            await driver.processes(sandbox_id)


async def test_silence_has_a_deadline(sentry):
    async def silent(_):
        await asyncio.Event().wait()

    async with sentry(silent) as (driver, sandbox_id):
        with pytest.raises(DriverError, match=r"no answer.*limit 0\.3 s"):
            await driver.start(sandbox_id)


async def test_a_sentry_that_hangs_up_is_a_driver_error(sentry):
    async def hang_up(writer):
        writer.close()

    async with sentry(hang_up) as (driver, sandbox_id):
        with pytest.raises(DriverError, match=r"closed the connection|is gone"):
            await driver.processes(sandbox_id)


async def test_a_sandbox_without_a_socket_is_a_driver_error(sentry):
    async with sentry(OK) as (driver, _):
        with pytest.raises(DriverError, match="does not listen"):
            await driver.processes(new_id("sb"))


async def test_a_resume_follows_a_sweep_that_fails(sentry):
    """A guest that stays paused would be a call that never ends."""
    asked: list[int] = []

    async def answer(writer):
        asked.append(len(asked))
        writer.write(OK if len(asked) != 2 else b'{"success":true,"result":7}')

    async with sentry(answer) as (driver, sandbox_id):
        with pytest.raises(DriverError):
            await driver.signal(sandbox_id, 1, 9, whole_tree=True)
    assert asked == [0, 1, 2]


def in_turn(*answers):
    """Answers one after the other."""
    left = list(answers)

    async def answer(writer):
        writer.write(left.pop(0))

    return answer


LISTED = b'{"success":true,"err":"","result":[{"pid":1,"ppid":0},{"pid":2,"ppid":0},{"pid":3,"ppid":2}]}'


async def test_a_process_that_is_gone_already_is_killed_enough(sentry):
    gone = b'{"success":false,"err":"no such process with PID 3"}'
    async with sentry(in_turn(OK, LISTED, gone, OK)) as (driver, sandbox_id):
        await driver.signal(sandbox_id, 2, 9, whole_tree=True)


async def test_a_signal_that_is_refused_is_a_driver_error(sentry):
    refused = b'{"success":false,"err":"permission denied"}'
    async with sentry(in_turn(OK, LISTED, refused, OK)) as (driver, sandbox_id):
        with pytest.raises(DriverError, match="permission denied"):
            await driver.signal(sandbox_id, 2, 9, whole_tree=True)
