"""`audit verify` on a state directory: what holds ends with 0, what doesn't is named and ends with 1."""

import json

import msgspec
import pytest

from opensafe.audit import verify
from opensafe.audit.segment import segment_path
from opensafe.audit.verify import LEDGER
from opensafe.cli.exits import Exit
from opensafe.model import chain
from opensafe.model.records import SessionRecord
from tests.harness.records import decision
from tests.harness.state import State


@pytest.fixture
def state(tmp_path):
    """A log of three records and an empty ledger."""
    lines, head = [], chain.Head()
    for index in range(3):
        record = SessionRecord(time_us=index, session_id="ses-1", principal="p", state="open")
        sealed = chain.seal(head, msgspec.to_builtins(record))
        lines.append(sealed.line + b"\n")
        head = sealed.head
    log = segment_path(tmp_path, 0)
    log.parent.mkdir(parents=True)
    log.write_bytes(b"".join(lines))
    (tmp_path / LEDGER).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / LEDGER).touch()
    return tmp_path


async def test_an_intact_log_verifies(opensafe, state):
    ended = await opensafe("audit", "verify", "--state", str(state))
    assert ended.status == 0
    assert b"3 records" in ended.stdout
    assert ended.stdout.splitlines()[-1] == b"verified"


async def test_a_changed_record_is_named(opensafe, state):
    log = segment_path(state, 0)
    log.write_bytes(log.read_bytes().replace(b'"time_us":1', b'"time_us":7'))
    ended = await opensafe("audit", "verify", "--state", str(state))
    assert ended.status == Exit.GOAL_MISSED
    assert b"audit 1: chain_broken" in ended.stdout
    assert b"NOT VERIFIED" in ended.stdout


@pytest.mark.parametrize("options", [[], ["--replay"]], ids=["chains", "replay"])
async def test_json_has_the_one_form(opensafe, state, options):
    ended = await opensafe("audit", "verify", "--json", "--state", str(state), *options)
    report = json.loads(ended.stdout)
    assert report["schema"] == "opensafe.audit-verify/1"
    assert report["summary"]["ok"] is True
    assert report["summary"]["records"] == 3
    assert report["summary"]["replayed"] == (0 if options else None)
    assert report["details"] == {"findings": [], "masked": []}


async def test_nothing_to_verify_is_no_success(opensafe, tmp_path):
    ended = await opensafe("audit", "verify", "--state", str(tmp_path / "none"))
    assert ended.status == Exit.UNAVAILABLE


@pytest.mark.parametrize("file", ["audit/segment-000000.jsonl", LEDGER, "audit/checkpoints.jsonl"])
async def test_what_a_daemon_is_writing_is_no_finding(opensafe, tmp_path, file):
    state = State(tmp_path / "state")
    state.record(SessionRecord(time_us=0, session_id="ses-1", principal="p", state="open"))
    state.entry("pool", leaf="", subject="", sandbox_id="sb-1")
    state.sign()
    state.append(state.path / file, b'{"half')
    ended = await opensafe("audit", "verify", "--state", str(state.path))
    assert ended.status == 0, ended.stdout
    state.append(state.path / file, b"\n")  # whoever ends such a line has written it
    ended = await opensafe("audit", "verify", "--state", str(state.path))
    assert ended.status == Exit.GOAL_MISSED


def test_what_is_started_after_the_log_was_read_is_no_finding(tmp_path, monkeypatch):
    state = State(tmp_path / "state")
    leaf = state.record(decision(subject="11"))
    begun = {"subject": "11", "sandbox_id": "sb-1", "exec_id": "ex-1"}
    state.entry("start", leaf=leaf, **begun)
    read = verify.read_records

    def then_more(*arguments, **options):
        yield from read(*arguments, **options)
        state.entry("start", leaf="ab" * 32, **begun)

    monkeypatch.setattr(verify, "read_records", then_more)
    assert verify.verify_state(state.path).findings == ()
    monkeypatch.undo()
    assert [found.kind for found in verify.verify_state(state.path).findings] == ["execution_without_decision"]


@pytest.mark.parametrize(
    "words",
    [
        ("verify",),
        ("prove", "0"),
        ("export", "--format", "jsonl"),
        ("export", "--format", "evidence", "--output", "/nowhere/evidence"),
    ],
)
async def test_a_state_directory_that_is_none_is_said_to_be(opensafe, tmp_path, words):
    ended = await opensafe("audit", *words, "--state", str(tmp_path / "none"))
    assert ended.status == Exit.UNAVAILABLE
    assert "No such file or directory" in ended.stderr
    assert "root and the service user can read it." in ended.stderr


async def test_a_proof_that_can_not_be_written_is_said_to_be(opensafe, tmp_path):
    state = State(tmp_path / "state")
    state.record(SessionRecord(time_us=0, session_id="ses-1", principal="p", state="open"))
    state.sign()
    ended = await opensafe("audit", "prove", "0", "--state", str(state.path), "--output", str(tmp_path / "no" / "file"))
    assert ended.status == Exit.REQUEST
    assert "the proof can't be written: No such file" in ended.stderr


@pytest.mark.parametrize("text", ['{"kind":"inclusion","more":' + "[" * 200_000, "\xff", "", "[]"])
async def test_a_file_that_is_no_proof_is_said_to_be(opensafe, tmp_path, text):
    state = State(tmp_path / "state")
    (tmp_path / "proof").write_text(text, encoding="latin-1")
    ended = await opensafe("audit", "verify", "--proof", str(tmp_path / "proof"), "--key", str(state.key))
    assert ended.status == Exit.UNAVAILABLE
    assert "the file is no proof" in ended.stderr
