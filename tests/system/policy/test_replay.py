"""G30: what a real daemon recorded, judged again on a candidate."""

import asyncio
import hashlib
import json
import subprocess
import sys

import pytest

from opensafe.audit.segment import read_log
from opensafe.cli.exits import Exit
from opensafe.policy.keys import key_id
from tests.harness.daemon import Daemon
from tests.harness.policy import KEY, site_bundle

COMMANDS = ("echo one", "curl https://evil.example.com", "ls", "npm install x", "sudo id")


@pytest.fixture(scope="module")
def recorded(bundles):
    """A state directory with an allowed, a reviewed, an approved, a blocked and a file call, and its daemon stopped."""
    daemon = Daemon(bundle=bundles["active"], key=bundles["key"])

    async def fill():
        daemon.start()
        async with daemon.client() as client, daemon.client("reviewer") as reviewer:
            session = await client.create_session("tester")
            sandbox = (await client.create_sandbox(session)).sandbox_id
            for number, command in enumerate(COMMANDS):
                await client.run_call(session, sandbox, f"call-{number}", "Bash", {"command": command})
            await client.run_call(session, sandbox, "write", "Write", {"path": "/workspace/a", "content": "b"})
            (waiting,) = await reviewer.list_reviews()
            await reviewer.approve_review(waiting.review_id, waiting.digest)
        daemon.stop()

    asyncio.run(fill())
    yield daemon.state
    assert daemon.remove() == []


def replay(state, candidate, *options):
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "opensafe.cli",
            "policy",
            "replay",
            "--state",
            state,
            "--candidate",
            candidate,
            *options,
        ],
        capture_output=True,
        text=True,
    )


def test_the_same_rules_change_nothing_approvals_included(recorded, bundles):
    done = replay(recorded, bundles["same"], "--json", "--fail-on", "any")
    report = json.loads(done.stdout)
    assert done.returncode == 0, report
    assert (report["summary"]["decisions"], report["summary"]["changed"]) == (len(COMMANDS) + 3, 0)
    assert report["summary"]["other_rules"] == 0


def test_a_stricter_candidate_is_named_call_by_call(recorded, bundles):
    done = replay(recorded, bundles["stricter"], "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0
    assert (report["summary"]["tightened"], report["summary"]["loosened"]) == (1, 0)
    (change,) = report["details"]["changes"]
    assert (change["call_id"], change["old"], change["new"]) == ("call-0", "allow", "block")
    assert change["old_rules"] == ["tool.bash.workspace.allow"]
    assert [hit["id"] for hit in change["rules"]] == ["default.deny"]
    assert report["details"]["transitions"] == {"allow>block": 1}


@pytest.mark.parametrize(("fail_on", "ends"), [("tightened", 1), ("any", 1), ("loosened", 0), ("never", 0)])
def test_the_exit_status_is_what_was_asked_for(recorded, bundles, fail_on, ends):
    assert replay(recorded, bundles["stricter"], "--fail-on", fail_on).returncode == ends


def test_a_looser_candidate_is_loosened(recorded, tmp_path):
    looser, _ = site_bundle(
        tmp_path, number=9, change=lambda data: data["hosts"]["allowed"].append("evil.example.com"), without="egress"
    )
    report = json.loads(replay(recorded, looser, "--json").stdout)
    changed = {change["call_id"]: change["new"] for change in report["details"]["changes"]}
    assert changed == {"call-1": "allow"}


def test_people_get_a_table_of_80_columns(recorded, bundles):
    done = replay(recorded, bundles["stricter"])
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["CALL", "TOOL", "OLD", "NEW", "RULES"]
    assert lines[1].split() == ["call-0", "Bash", "allow", "block", "default.deny"]
    assert max(map(len, lines)) <= 80
    assert "calls/s" in lines[-1]


def test_since_leaves_older_decisions_out(recorded, bundles):
    report = json.loads(replay(recorded, bundles["stricter"], "--since", "2100-01-01", "--json").stdout)
    assert report["summary"]["decisions"] == 0
    assert replay(recorded, bundles["stricter"], "--since", "yesterday").returncode == Exit.REQUEST


def test_kept_changes_are_bounded_and_all_are_counted(recorded, bundles):
    report = json.loads(replay(recorded, bundles["stricter"], "--keep", "0", "--json").stdout)
    assert (report["details"]["changes"], report["summary"]["changed"]) == ([], 1)


def test_a_broken_log_is_no_basis(recorded, bundles, tmp_path):
    log = tmp_path / "audit" / "segment-000000.jsonl"
    log.parent.mkdir()
    log.write_bytes((recorded / "audit" / log.name).read_bytes().replace(b"echo one", b"echo two"))
    done = replay(tmp_path, bundles["same"])
    assert done.returncode == Exit.UNAVAILABLE
    assert "audit verify" in done.stderr


@pytest.fixture(scope="module")
def lines(recorded, tmp_path_factory):
    """The same records as lines in a file."""
    path = tmp_path_factory.mktemp("lines") / "records.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in read_log(recorded)))
    return path


def test_lines_that_were_taken_out_of_the_log_say_the_same(lines, recorded, bundles):
    here = json.loads(replay("/nowhere", bundles["stricter"], "--records", lines, "--json").stdout)
    there = json.loads(replay(recorded, bundles["stricter"], "--json").stdout)
    assert here["details"]["changes"] == there["details"]["changes"] != []
    assert here["summary"]["decisions"] == there["summary"]["decisions"]


def test_a_report_says_which_candidate_it_was(lines, bundles):
    summary = json.loads(replay("/nowhere", bundles["stricter"], "--records", lines, "--json").stdout)["summary"]
    assert summary["candidate_number"] == 3
    assert summary["candidate_digest"] == hashlib.sha256(bundles["stricter"].read_bytes()).hexdigest()
    assert summary["candidate_key"] == key_id(KEY.public_key())


@pytest.mark.parametrize("line", [b"{}", b"[" * 100_000, b'{"index":1,"kind":"decision"}', b"\xff"])
def test_a_line_that_is_no_record_ends_it(lines, bundles, tmp_path, line):
    path = tmp_path / "lines"
    path.write_bytes(lines.read_bytes().splitlines(keepends=True)[0] + line + b"\n")
    done = replay("/nowhere", bundles["stricter"], "--records", path, "--json")
    assert (done.returncode, done.stdout) == (Exit.REQUEST, "")
    assert "line 2 is no record" in done.stderr
