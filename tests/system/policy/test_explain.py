"""G63: an explanation from a real daemon says rule, file and line, value, remedy and the nearest allowed."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from opensafe.errors import NotFound
from tests.harness.daemon import ROOT


def opensafe(daemon, *words, principal="agent"):
    """The command line as a principal of the daemon."""
    return subprocess.run(
        [sys.executable, "-m", "opensafe.cli", "policy", *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENSAFE_SOCKET": str(daemon.socket_of(principal))},
    )


async def test_a_block_is_explained_by_its_source_and_the_nearest_host(agent, session):
    verdict = await agent.decide(session, "Bash", {"command": "curl https://docs.pyton.org"})
    found = await agent.explain(verdict.decision_id)
    hit = next(hit for hit in found.decision.rules if hit.id == "egress.domain.allowlist")
    (note,) = found.notes_of(hit)
    source = (ROOT / "policies" / note.file).read_text().splitlines()
    assert "blocks contains hit.block(" in source[note.line - 1]
    assert '"egress.domain.allowlist"' in source[note.line]
    (host,) = [one for one in found.nearest if one.kind == "host"]
    assert (host.value, host.allowed) == ("docs.pyton.org", ("docs.python.org",))
    assert [command.argv for command in found.question.call.commands] == [("curl", "https://docs.pyton.org")]


async def test_the_rules_in_force_are_those_of_the_sources(agent):
    found = await agent.list_rules()
    assert found.revision == (await agent.status()).bundle_revision
    sources = {note.file: (ROOT / "policies" / note.file).read_text() for note in found.notes}
    assert all(f'"{note.id}"' in sources[note.file] for note in found.notes)
    ids = {note.id for note in found.notes}
    assert {"egress.domain.allowlist", "tool.bash.workspace.allow", "default.deny"} <= ids


async def test_an_allow_is_explained_too(agent, session):
    verdict = await agent.decide(session, "Bash", {"command": "make test"})
    found = await agent.explain(verdict.decision_id)
    assert [hit.id for hit in found.decision.deciding()] == ["tool.bash.workspace.allow"]
    assert found.nearest == ()


async def test_a_call_on_record_is_found_by_its_call_id(agent, session, sandbox):
    result = await agent.run_call(session, sandbox, "by-this-id", "Read", {"path": "/etc/shadow"})
    assert (await agent.explain("by-this-id")).decision_id == result.verdict.decision_id


async def test_nobody_sees_the_decisions_of_others_but_an_auditor(daemon, agent, reviewer, session):
    decision_id = (await agent.decide(session, "Bash", {"command": "ls"})).decision_id
    async with daemon.client("other") as other:
        with pytest.raises(NotFound):
            await other.explain(decision_id)
    assert (await reviewer.explain(decision_id)).decision_id == decision_id


def test_the_command_line_lists_each_rule_once(daemon):
    report = json.loads(opensafe(daemon, "rules", "--json").stdout)
    shown = opensafe(daemon, "rules").stdout.splitlines()
    assert report["summary"]["rules"] == len(shown) - 1 == len({line.split()[0] for line in shown[1:]})
    assert report["summary"]["parts"] == len(report["details"]["notes"])
    assert any(line.startswith("egress.domain.allowlist ") and " high " in line for line in shown)


def test_the_command_line_judges_a_call_that_is_not_run(daemon):
    before = daemon.starts()
    shown = opensafe(daemon, "explain", "Read", '{"path": "/etc/hostname"}')
    assert shown.returncode == 0, shown.stderr
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "path     /etc/hostname → /workspace/hostname" in shown.stdout
    assert "read     /etc/hostname  [system]" in shown.stdout
    assert daemon.starts() == before


def test_a_decision_is_explained_from_the_state_directory_alone(daemon):
    asked = opensafe(daemon, "explain", "Bash", '{"command": "sudo id"}', "--json")
    decision_id = json.loads(asked.stdout)["summary"]["decision_id"]
    shown = opensafe(daemon, "explain", "--decision", decision_id, "--state", daemon.state)
    assert shown.returncode == 0, shown.stderr
    assert "tool.exec.sudo.deny (critical) says block, and decides" in shown.stdout
    assert "source   opensafe/" in shown.stdout
    offline = json.loads(
        opensafe(daemon, "explain", "--decision", decision_id, "--state", daemon.state, "--json").stdout
    )
    assert offline["summary"] == json.loads(asked.stdout)["summary"]


def test_a_decision_that_is_not_there_says_where_to_look(daemon):
    assert "--state" in opensafe(daemon, "explain", "--decision", "dec-none").stderr
    assert isinstance(daemon.state, pathlib.Path)
    gone = opensafe(daemon, "explain", "--decision", "dec-none", "--state", daemon.state)
    assert "no such decision on record" in gone.stderr
