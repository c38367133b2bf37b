"""No secret gets into the log, and the record says where one was; nothing else changes."""

import json
import os

import pytest

from opensafe.audit.log import AuditLog
from opensafe.model.chain import verify
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.records import OutcomeRecord, Record, RefusalRecord

KEY = "AKIA" + "IOSFODNN7EXAMPLE"


@pytest.fixture
def folded():
    return []


@pytest.fixture
async def log(tmp_path, folded):
    path = tmp_path / "segment-000000.jsonl"
    made = AuditLog(
        os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT),
        (path,),
        lambda _index, record, _leaf: folded.append(record),
    )
    await made.open()
    yield made
    await made.close()
    assert len(list(verify(path.read_bytes().splitlines()))) == made.head.size  # canonical and chained


def outcome(detail):
    ended = Outcome(kind=OutcomeKind.LOST, detail=detail)
    return OutcomeRecord(time_us=1, decision_id="dec", session_id="s", call_id="c", outcome=ended)


async def test_a_secret_is_masked_and_the_record_says_where(log):
    written = await log.append(outcome(f"could not log in with {KEY} and ~/x"))
    assert KEY.encode() not in written.line
    fields = json.loads(written.line)
    assert fields["masked"] == ["/outcome/detail"]
    assert fields["outcome"]["detail"] == "could not log in with [masked:aws_key] and ~/x"
    assert written.record.masked == ("/outcome/detail",)
    assert isinstance(written.record, Record)


async def test_a_record_without_a_secret_is_as_it_was_and_says_nothing(log, folded):
    written = await log.append(outcome("could not log in with AKIAshort"))
    assert b"masked" not in written.line
    assert written.record == folded[0]


async def test_what_the_log_is_folded_by_stays(log):
    """An id that looks like a secret is its sender's choice; masked it would no longer name the call."""
    record = RefusalRecord(
        time_us=1, principal="p", session_id="s", call_id=KEY, tool="Bash", reason="R", message=f"token={KEY}"
    )
    fields = json.loads((await log.append(record)).line)
    assert fields["call_id"] == KEY
    assert KEY not in fields["message"]
    assert fields["masked"] == ["/message"]


async def test_state_is_folded_from_what_was_said(log, folded):
    await log.append(outcome(KEY))
    assert folded[0].outcome.detail == KEY
