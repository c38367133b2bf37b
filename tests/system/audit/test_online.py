"""Proofs, verification and evidence over the API: what they say is what the offline commands say."""

import asyncio
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile

import pytest

from opensafe.audit.segment import segment_paths
from opensafe.errors import AuditError, Conflict, InvalidArgument, NotFound, NotPermitted
from opensafe.warden import kernel
from tests.harness.audit import signed

pytestmark = [pytest.mark.root, pytest.mark.runsc]

SIGNED = {"audit": "checkpoint_s = 1\ncheckpoint_records = 1"}


@pytest.fixture(scope="module")
def settings():
    return SIGNED


def offline(daemon, *arguments):
    """Status and report of `opensafe audit verify`."""
    key = daemon.state / "audit/key.pub"
    command = [sys.executable, "-m", "opensafe.cli", "audit", "verify", "--json", "--key", key, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


async def ran(client, call="call"):
    """A session in which a call was run."""
    session = await client.create_session("tester")
    sandbox = (await client.create_sandbox(session)).sandbox_id
    assert (await client.run_call(session, sandbox, call, "Bash", {"command": "echo ran"})).stdout == b"ran\n"
    await client.close_session(session)
    return session


def children(daemon):
    """The processes that verify or export for the front."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes()
            if b"opensafe.control.auditor" in command and f"{daemon.state}".encode() in command:
                found.append(entry.name)
    return found


def exports():
    """What exports have written beside."""
    return sorted(pathlib.Path(tempfile.gettempdir()).glob("opensafe-export-*"))


async def test_a_record_is_proven_to_who_may_see_it_and_checked_by_the_key_alone(daemon, agent, reviewer, tmp_path):
    session = await ran(agent)
    last = (await agent.search_audit(session_id=session)).records[0]
    await signed(agent, last.index + 1)
    for client in (agent, reviewer):
        (tmp_path / "proof").write_bytes(await client.prove_record(last.index))
        status, told = offline(daemon, "--proof", tmp_path / "proof")
        assert (status, told["summary"]["index"]) == (0, last.index)
        assert told["details"]["record"] == json.loads(last.line)
    async with daemon.client("other") as other:
        for index in (last.index, 10**9, -1):
            with pytest.raises(NotFound, match="no such record"):
                await other.prove_record(index)


async def test_a_record_that_is_not_signed_yet_is_a_conflict(own_daemon):
    daemon = own_daemon(audit="checkpoint_s = 3600\ncheckpoint_records = 100000")
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        last = (await agent.search_audit(session_id=session)).records[0]
        with pytest.raises((Conflict, AuditError), match=r"not signed yet|no checkpoint"):
            await agent.prove_record(last.index)


async def test_verified_as_the_command_does_it(daemon, agent, reviewer):
    await ran(agent)
    report = await reviewer.verify_audit()
    assert (report.ok, report.findings, report.findings_total) == (True, (), 0)
    assert report.executions > 0
    assert report.ledger_entries == len(daemon.ledger())
    status, told = offline(daemon, "--state", daemon.state)
    assert status == 0
    assert report.key == (daemon.state / "audit/key.pub").read_text().strip()
    assert report.records <= told["summary"]["records"]
    assert report.checkpoints > 0


async def test_evidence_of_a_session_a_call_and_all_verifies_elsewhere(daemon, agent, reviewer, tmp_path):
    session = await ran(agent, "the-call")
    await ran(agent)
    await signed(agent, (await agent.search_audit(session_id=session)).records[0].index + 1)
    counts = []
    for scope in ({"session_id": session}, {"session_id": session, "call_id": "the-call"}, {}):
        with (tmp_path / "evidence").open("wb") as file:
            async for piece in reviewer.export_evidence(**scope):
                file.write(piece)
        status, told = offline(daemon, "--evidence", tmp_path / "evidence")
        assert status == 0, told
        counts.append(told["summary"]["records"])
    assert 0 < counts[1] < counts[0] < counts[2]
    with pytest.raises(AuditError, match="no signed record"):
        await anext(reviewer.export_evidence(session_id="ses-none"))
    with pytest.raises(InvalidArgument):
        await anext(reviewer.export_evidence(since_us=-1))


async def test_without_the_role_there_is_neither(agent):
    with pytest.raises(NotPermitted, match="auditor"):
        await agent.verify_audit()
    with pytest.raises(NotPermitted, match="auditor"):
        await anext(agent.export_evidence())


async def test_one_at_a_time_and_nothing_stays_of_what_is_broken_off(daemon, agent, reviewer):
    await ran(agent)
    before = exports()
    results = await asyncio.gather(*(reviewer.verify_audit() for _ in range(4)), return_exceptions=True)
    assert [type(one) for one in results].count(Conflict) == 3
    async with asyncio.timeout(60):
        leaving = asyncio.create_task(reviewer.verify_audit())
        while not children(daemon) and not leaving.done():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
        leaving.cancel()
        while children(daemon):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        exporting = reviewer.export_evidence()
        while True:
            with contextlib.suppress(Conflict):  # the front has not heard of its end yet
                assert await anext(exporting)
                break
            exporting = reviewer.export_evidence()
        await exporting.aclose()
        while children(daemon):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    assert exports() == before


async def test_what_root_changes_is_found(own_daemon):
    daemon = own_daemon(**SIGNED)
    async with daemon.client() as agent, daemon.client("reviewer") as reviewer:
        session = await ran(agent)
        last = (await agent.search_audit(session_id=session)).records[0]
        await signed(agent, last.index + 1)
        assert (await reviewer.verify_audit()).ok
        [path] = segment_paths(daemon.state)
        with path.open("rb") as file:
            kernel.set_append_only(file.fileno(), False)
        whole = path.read_bytes()
        path.write_bytes(whole.replace(b"echo ran", b"echo RAN", 1))
        report = await reviewer.verify_audit()
        assert not report.ok
        assert report.findings[0].kind == "chain_broken"
        with pytest.raises(AuditError, match="not the one that the checkpoint signed"):
            await agent.prove_record(last.index)
        path.write_bytes(whole)
