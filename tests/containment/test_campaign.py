"""The escape campaign in its short form, and what it does when something is planted, lost, or killed in the middle."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from opensafe.errors import DriverError, HostUnsuitable
from opensafe.proof import private
from opensafe.proof.campaign import arena, running, selfcheck, wire
from opensafe.proof.campaign.batch import Batch, Kind
from opensafe.proof.campaign.gated import Gated
from opensafe.proof.campaign.minimise import minimise
from opensafe.proof.campaign.oracles import Finding, Oracle
from opensafe.proof.campaign.running import Planted
from opensafe.proof.campaign.site import Site
from opensafe.proof.campaign.wire import Sequence, SystemCall
from opensafe.warden.sandbox.syscalls import NUMBERS

pytestmark = [pytest.mark.root, pytest.mark.runsc]

SEED = 20
SMALL = Batch(seed=SEED, number=1, size=8, kinds=(Kind.SHIPPED,))
COMMAND = [sys.executable, "-m", "opensafe.cli", "fuzz", "campaign", "--seed", str(SEED), "--json"]
OURS = (
    "/run/opensafe-campaign-*",
    "/var/lib/opensafe-campaign-*",
    "/tmp/opensafe-canary-*",
    "/tmp/opensafe-campaign-*",
)


def made():
    """What campaigns make on this host, but for cells, which other suites have too."""
    return {path for pattern in OURS for path in pathlib.Path("/").glob(pattern[1:])}


def campaign(*options, timeout=60):
    ran = subprocess.run([*COMMAND, *options], capture_output=True, timeout=timeout)
    assert ran.stdout, ran.stderr.decode()
    return ran.returncode, json.loads(ran.stdout)


def test_the_short_form_completes_its_runs_raises_what_is_planted_and_nothing_else(tmp_path):
    before = made()
    status, told = campaign("--runs", "32", "--size", "8", "--html", str(tmp_path / "page.html"))
    summary = told["summary"]
    assert told["details"]["findings"] == []
    assert status == 0, told
    assert summary["completed"] >= 32
    assert summary["completed_gated"] * 4 >= summary["completed"]
    assert summary["planted_raised"] == summary["planted"] == 7
    assert summary["inconclusive"] == summary["escapes"] == 0
    assert summary["system_call_numbers"] > 150
    assert summary["policy_rules"] > 10
    assert "0 escapes" in (tmp_path / "page.html").read_text()
    assert made() <= before


def test_what_was_killed_goes_on_where_it_was_and_leaves_nothing(tmp_path):
    before = made()
    options = ["--runs", "48", "--size", "8", "--resume", str(tmp_path)]
    done = tmp_path / "batches.jsonl"
    elsewhere = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([*COMMAND, *options], stdout=subprocess.DEVNULL, env=elsewhere) as first:
        try:
            while not (done.exists() and done.read_bytes().count(b"\n") >= 2):
                assert first.poll() is None
                time.sleep(0.05)
        finally:
            first.send_signal(signal.SIGKILL)
    left = [pathlib.Path(line) for line in (tmp_path / "made").read_text().splitlines()]
    assert {path.name.split("-")[1] for path in left if path.exists()} == {"canary", "cells", "campaign"}
    kept = done.read_bytes()
    kept = kept[: kept.rfind(b"\n") + 1]
    status, told = campaign(*options)
    assert status == 0, told
    assert done.read_bytes().startswith(kept)
    numbers = [json.loads(line)["number"] for line in done.read_bytes().splitlines()]
    assert sorted(numbers) == list(range(len(numbers)))
    assert told["summary"]["completed"] >= 48
    assert not [path for path in left if path.exists()]
    assert made() <= before


async def test_a_sequence_that_reads_a_planted_canary_is_cut_to_what_is_needed():
    async with Site.open() as site:
        planted = next(planted for name, _, planted in selfcheck.breaches(site.canary) if "is mounted" in name)
        pid = SystemCall(NUMBERS["getpid"])
        opened = SystemCall(NUMBERS["open"], (arena.path(arena.PATHS.index(arena.MOUNTED + "/nonce")), 0, 0))
        read = SystemCall(NUMBERS["read"], (3, wire.LANDING, 256), 1)
        runs = {0: Sequence((pid,) * 20), 1: Sequence((pid, pid, pid, opened, read, *(pid,) * 20)), 2: Sequence((pid,))}

        async def raises(wanted):
            ended = await running.run(site, SMALL, planted, wanted)
            return Oracle.NONCE in {finding.oracle for finding in ended.findings}

        found = await minimise(Oracle.NONCE, runs, raises)
    assert found.runs == (1,)
    assert found.sequence.calls == (pid, pid, pid, opened, read)


async def test_a_sequence_that_ends_its_executor_is_lost_and_those_behind_it_are_run_elsewhere():
    itself = arena.path(arena.PATHS.index("/proc/self/exe"))
    ending = Sequence((SystemCall(NUMBERS["chmod"], (itself, 0o777)), SystemCall(NUMBERS["open"], (itself, 0x201, 0))))
    fine = Sequence((SystemCall(NUMBERS["getpid"]),) * 20)
    async with Site.open() as site:
        ended = await running.run(site, SMALL, wanted={1: fine, 2: ending, 3: fine, 4: fine})
    assert ended.lost == (2,)
    assert ended.completed == 3
    assert ended.sandboxes == 3
    assert ended.findings == ()


async def test_what_was_found_is_kept_where_a_batch_can_not_be_ended():
    @contextlib.asynccontextmanager
    async def touched(_):
        (site.canary.directory / "new").touch()
        yield
        raise DriverError("and then it went wrong")

    found: dict[Finding, None] = {}
    async with Site.open() as site:
        with pytest.raises(DriverError):
            await running.run(site, SMALL, Planted(act=touched), found=found)
    assert {finding.oracle for finding in found} == {Oracle.CANARY}


@pytest.mark.parametrize("before", [True, False], ids=["before-it", "meanwhile"])
async def test_a_batch_is_nothing_where_the_kernels_log_has_a_gap_but_of_one_that_was_before(before):
    @contextlib.asynccontextmanager
    async def gap(_):
        if not before:
            site.kernel._gaps += 1
        yield

    async with Site.open() as site:
        site.kernel._gaps += 1
        with contextlib.nullcontext() if before else pytest.raises(HostUnsuitable):
            await running.run(site, SMALL, Planted(act=gap))


async def test_a_sandbox_that_is_ended_from_outside_is_told():
    @contextlib.asynccontextmanager
    async def ended_once(cell):
        if not struck:
            struck.append(cell)
            cell.cgroup.kill()
            await cell.sandbox.death
        yield

    struck = []
    async with Site.open() as site:
        ended = await running.run(site, SMALL, Planted(act=ended_once))
    assert {finding.oracle for finding in ended.findings} == {Oracle.DEATH}
    assert ended.completed == SMALL.size
    assert ended.lost == ()


async def test_nothing_is_left_of_a_daemon_that_was_killed():
    before = made()
    async with Site.open() as site, Gated.open(site) as gated:
        daemon = gated._daemon
        unique, instance = daemon.run.name, (daemon.state / "instance").read_text()
        groups = gated._hierarchies.group("x").directories
        async with gated.client() as client:
            await client.create_sandbox(await client.create_session("campaign"))
            assert left_of(unique, instance, groups)
            daemon.kill()
        assert {finding.oracle for finding in gated.look()} == {Oracle.DEATH}
    assert left_of(unique, instance, groups) == []
    assert made() <= before


def left_of(unique, instance, groups):
    """Of a daemon that made these: mounts, groups, its link."""
    mounts = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    places = [*(pathlib.Path(group).parent for group in groups), pathlib.Path(f"/sys/class/net/os{instance}")]
    return [*(line for line in mounts if unique in line), *(str(path) for path in places if path.exists())]


def test_the_executor_does_nothing_outside_of_a_sandbox():
    program = pathlib.Path(private.programs().native, "proof/sequence")
    for user in (os.geteuid(), 65534):
        with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=user) as process:
            stdout, _ = process.communicate(b"")
        assert (process.returncode, stdout) == (3, b"")
