"""`audit verify` on a state directory: what holds ends with 0, what doesn't is named and ends with 1."""

import json

import msgspec
import pytest

from opensafe.audit.segment import segment_path
from opensafe.audit.verify import LEDGER
from opensafe.cli.exits import Exit
from opensafe.model import chain
from opensafe.model.records import SessionRecord


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
