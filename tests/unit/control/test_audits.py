"""The child that reads the log for auditors: however it, or whoever waits for it, comes to an end."""

import asyncio
import os
import subprocess
import sys

import pytest

from opensafe.audit.scope import Scope
from opensafe.control import audits
from opensafe.control.audits import Audits
from opensafe.errors import AuditError, Conflict, NotPermitted, Unavailable
from opensafe.model.calls import Principal
from tests.harness.records import refusal
from tests.harness.state import State

AUDITOR = Principal(name="reviewer", roles=("auditor",))
AGENT = Principal(name="agent", roles=("developer", "operator"))
PACKED = '{"type":"Packed","size":9}'


@pytest.fixture
def child(monkeypatch):
    def instead(program):
        monkeypatch.setattr(audits, "_BOOT", program)

    return instead


@pytest.fixture
def state(tmp_path):
    state = State(tmp_path / "state")
    for number in range(20):
        state.record(refusal(number))
    state.sign()
    return state


async def exported(audits, **scope):
    return b"".join([piece async for piece in audits.export(AUDITOR, Scope(**scope))])


async def test_verified_and_packed_as_they_are(state):
    at = Audits(state.path)
    verified = await at.verify(AUDITOR, asyncio.Event())
    assert (verified.report.ok, verified.report.records, verified.findings) == (True, 20, 0)
    assert (await exported(at))[:2] == b"\x1f\x8b"
    with pytest.raises(AuditError, match="no signed record"):
        await exported(at, session="ses-none")


async def test_of_many_findings_the_first_are_told_and_all_counted(state):
    for number in range(1200):
        state.entry("start", leaf=f"{number:064}", subject="", sandbox_id="sb-1")
    verified = await Audits(state.path).verify(AUDITOR, asyncio.Event())
    assert (len(verified.report.findings), verified.findings) == (1000, 1200)


async def test_without_the_role_nothing_is_started(state, child):
    child("raise SystemExit('started')")
    with pytest.raises(NotPermitted, match="limit auditor"):
        await Audits(state.path).verify(AGENT, asyncio.Event())
    with pytest.raises(NotPermitted, match="limit auditor"):
        await anext(Audits(state.path).export(AGENT, Scope()))


async def test_one_that_never_answers_ends_with_who_waits(state, child):
    child("import time; time.sleep(10_000)")
    at, gone = Audits(state.path), asyncio.Event()
    verifying = asyncio.create_task(at.verify(AUDITOR, gone))
    await asyncio.sleep(0)  # it has its turn
    with pytest.raises(Conflict, match="one at a time"):
        await at.verify(AUDITOR, asyncio.Event())
    gone.set()
    with pytest.raises(Unavailable, match="broken off"):
        await verifying
    exporting = asyncio.create_task(exported(at))
    await asyncio.sleep(0)
    exporting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await exporting


@pytest.mark.parametrize("program", ["", "print('{}')", "print('{')", f"print('{PACKED}')"])
async def test_one_that_ends_or_says_something_else_is_an_error(state, child, program):
    child(program)
    at = Audits(state.path)
    with pytest.raises(Unavailable):
        await at.verify(AUDITOR, asyncio.Event())
    with pytest.raises(Unavailable):
        await exported(at)


def test_it_ends_with_the_front(state):
    notes = state.path / "audit" / "checkpoints.jsonl"
    notes.unlink(missing_ok=True)
    os.mkfifo(notes)
    command = [sys.executable, "-m", "opensafe.control.auditor", "verify", state.path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as auditor:
        writing = os.open(notes, os.O_WRONLY)  # it reads, and there is nothing to read
        auditor.stdin.close()
        assert auditor.stdout.read() == b""
        assert auditor.wait() == 1
        os.close(writing)
