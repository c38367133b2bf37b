"""`doctor`: every check names what it found; only a host and a daemon that hold both end with 0."""

import json
import socket
import subprocess
import sys

import pytest

from opensafe.cli import leftovers
from opensafe.cli.exits import Exit

ID = "sb-" + "5" * 20


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "opensafe.toml"
    path.write_text(f'[paths]\nrun = "{tmp_path}/run"\n')
    return str(path)


def _checks(ended):
    return {check["name"]: check for check in json.loads(ended.stdout)["details"]["checks"]}


async def test_without_a_daemon_it_checks_the_host_and_says_so(opensafe, config):
    ended = await opensafe("doctor", "--json", "--config", config)
    checks = _checks(ended)
    assert ended.status == Exit.GOAL_MISSED
    assert {"root", "kernel", "cgroup", "netns", "runsc", "opa", "native", "image", "bundle", "service-user"} <= set(
        checks
    )
    assert not checks["daemon"]["ok"]
    assert checks["daemon"]["remedy"]
    assert all(check["ok"] or check["remedy"] for check in checks.values())


async def test_it_reports_the_daemons_self_test(opensafe, daemon, config):
    report = json.loads((await opensafe("doctor", "--json", "--config", config)).stdout)
    assert report["summary"]["runsc_version"] == "release-1"
    assert report["summary"]["runsc_platform"] == "systrap"
    assert report["summary"]["bundle_revision"] == "7"
    checks = {check["name"]: check for check in report["details"]["checks"]}
    assert checks["daemon"]["ok"]
    assert checks["self-test syscall"]["ok"]


async def test_a_layer_that_does_not_hold_fails_the_check(opensafe, daemon, config):
    daemon.holds = False
    ended = await opensafe("doctor", "--json", "--config", config)
    assert not _checks(ended)["self-test syscall"]["ok"]
    assert ended.status == Exit.GOAL_MISSED


async def test_a_wrong_setting_is_told_with_its_value_and_what_is_allowed(opensafe, tmp_path):
    path = tmp_path / "opensafe.toml"
    path.write_text('[egress]\nvetted_also = ["127.0.0.0/8"]\n')
    found = _checks(await opensafe("doctor", "--json", "--config", str(path)))["config"]
    assert not found["ok"]
    assert "got 127.0.0.0/8; limit 0.0.0.0/8, 127.0.0.0/8" in found["value"]
    assert found["remedy"] == "Leave out loopback, link-local and multicast networks."


async def test_an_unreadable_configuration_is_a_finding(opensafe, tmp_path):
    ended = await opensafe("doctor", "--json", "--config", str(tmp_path / "none.toml"))
    assert not _checks(ended)["config"]["ok"]


@pytest.fixture
def stray():
    """A process that looks like a sandbox's."""
    code = "print(flush=True); input()"
    argv = ["runsc-sandbox", "-c", code, ID]
    with subprocess.Popen(argv, executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.communicate(b"\n")


def _named(run):
    return [one for one in leftovers.find(run) if ID in one.said or ID in one.name]


def test_a_process_of_a_sandbox_nobody_owns_is_a_leftover(tmp_path, stray):
    assert [(one.kind, one.name) for one in _named(tmp_path)] == [("process", str(stray.pid))]


def test_nothing_is_found_where_nothing_was_left(tmp_path):
    assert _named(tmp_path) == []


def test_what_a_running_daemon_owns_is_no_leftover(tmp_path, stray):
    (tmp_path / "bundles" / ID).mkdir(parents=True)
    (tmp_path / "principals" / "p").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "principals/p/opensafe.sock"))
        assert [one.kind for one in _named(tmp_path)] == ["bundle", "process"]
        server.listen()
        assert _named(tmp_path) == []
