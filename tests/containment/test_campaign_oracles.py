"""The campaign's oracles that no planted breach of the command raises: each is shown what it looks for."""

import asyncio
import contextlib
import ipaddress
import os
import signal
import socket
import subprocess
import sys
import tempfile

import pytest

from opensafe.proof.campaign import bounds
from opensafe.proof.campaign.bounds import Bounds
from opensafe.proof.campaign.gated import Uplink
from opensafe.proof.campaign.kernel import Kernel
from opensafe.proof.campaign.listening import Listening, frames_of
from opensafe.proof.campaign.oracles import Finding, Oracle
from opensafe.proof.campaign.processes import Tree
from opensafe.proof.campaign.site import Site
from opensafe.warden.sandbox.limits import Cgroup

pytestmark = [pytest.mark.root, pytest.mark.runsc]

VIOLATING = """
import os, pyseccomp
filter = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
filter.add_rule(pyseccomp.KILL_PROCESS, "getpriority")
filter.load()
os.getpriority(0, 0)
"""


MOVING = """
import os, sys
from opensafe.warden import kernel
kernel.unshare_network()
print("apart", flush=True)
sys.stdin.readline()
if sys.argv[1]:
    kernel.enter_network(os.open(sys.argv[1], os.O_RDONLY))
else:
    kernel.unshare_network()
print("moved", flush=True)
sys.stdin.readline()
"""


def oracles(findings):
    return {finding.oracle for finding in findings}


def test_7_a_violation_of_a_filter_is_told_of_runsc_and_of_nobody_else():
    with contextlib.closing(Kernel()) as kernel:
        with subprocess.Popen([sys.executable, "-c", VIOLATING]) as process:
            pass
        assert process.returncode == -signal.SIGSYS
        assert oracles(kernel.look({process.pid})) == {Oracle.VIOLATION}
        with subprocess.Popen([sys.executable, "-c", VIOLATING]) as process:
            pass
        assert list(kernel.look({process.pid + 1_000_000})) == []


def test_8_a_mount_is_a_change_of_the_host_and_is_told_once():
    made = tempfile.TemporaryDirectory(prefix="campaign-", dir="/var/tmp")  # where no daemon of ours mounts
    with made as place, contextlib.closing(Kernel()) as kernel:
        subprocess.run(["mount", "-t", "tmpfs", "campaign-test", place], check=True)
        try:
            found = list(kernel.compare())
            assert oracles(found) == {Oracle.HOST}
            assert any(place in finding.what for finding in found)
            assert not [finding for finding in kernel.compare() if place in finding.what]
        finally:
            subprocess.run(["umount", place], check=True)


async def test_3_and_4_what_reaches_the_host_is_told_by_listener_and_by_frame(tmp_path):
    async with Listening.open(tmp_path) as listening:
        assert list(listening.look()) == []
        for path in (str(listening.path), f"\0{listening.ports.abstract}"):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            found: list[Finding] = []
            while len(found) < 2:
                await asyncio.sleep(0.01)
                found += listening.look()
        assert oracles(found) == {Oracle.ACCEPT}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.sendto(b"x", (listening.ports.sentinel, listening.ports.udp))
        async with asyncio.timeout(10):
            found = []
            while oracles(found) != {Oracle.ACCEPT, Oracle.FRAME}:
                await asyncio.sleep(0.01)
                found += listening.look()
    assert oracles(frames_of(os.getpid())) == {Oracle.FRAME}


async def test_5_6_10_13_what_is_wrong_around_a_sandbox_is_told_and_what_is_right_is_not():
    async with Site.open() as site:
        cells = site.cells
        async with cells.cell() as cell:
            tree, limits = Tree(cell.cgroup, cells.layout.runsc), Bounds(cell.cgroup)
            looks = (tree.begun, tree.look, tree.posture, tree.scan)
            assert [finding for look in looks for finding in look()] == []
            assert list(limits.look()) == []
            assert list(frames_of(tree.sentry)) == []
            assert await site.heartbeat() == []
            network = f"--net=/proc/{tree.sentry}/ns/net"
            inside = await asyncio.create_subprocess_exec(
                *("nsenter", network, "sh", "-c", "echo in; exec sleep 60"), stdout=subprocess.PIPE
            )
            try:
                assert await inside.stdout.readline() == b"in\n"
                assert oracles(tree.scan()) == {Oracle.PROCESS}
            finally:
                inside.kill()
                await inside.wait()
            holding = asyncio.create_task(cell.run(cell.launch("sleep", "30"), deadline_s=60))
            container = cell.sandbox.container
            assert oracles(bounds.remains(cells.layout, cells.hierarchies, container)) == {Oracle.REMAINS}
            holding.cancel()
            await asyncio.gather(holding, return_exceptions=True)
        assert list(bounds.remains(cells.layout, cells.hierarchies, container)) == []
        left = cells.layout.bundle(container)
        left.mkdir()
        assert oracles(bounds.remains(cells.layout, cells.hierarchies, container)) == {Oracle.REMAINS}
        left.rmdir()


@pytest.mark.parametrize("there", [f"/proc/{os.getpid()}/ns/net", ""], ids=["the host's", "a new one"])
def test_6_a_sentry_that_goes_into_another_network_is_told(tmp_path, there):
    group = Cgroup({"memory": tmp_path}, unified=False)
    words = ["runsc-sandbox", "-c", MOVING, there]
    with subprocess.Popen(
        words, executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as sentry:
        assert sentry.stdout.readline() == "apart\n"
        (tmp_path / "cgroup.procs").write_text(f"{sentry.pid}\n")
        tree = Tree(group, tmp_path)
        assert list(tree.posture()) == []
        sentry.stdin.write("go\n")
        sentry.stdin.flush()
        assert sentry.stdout.readline() == "moved\n"
        assert oracles(tree.posture()) == {Oracle.POSTURE}
        sentry.stdin.close()
        sentry.wait()
        assert list(tree.posture()) == []


async def test_10_a_limit_that_was_passed_is_told(tmp_path):
    group = Cgroup({"pids": tmp_path}, unified=False)
    (tmp_path / "pids.peak").write_text("9\n")
    for most, raised in (("max\n", set()), ("9\n", set()), ("8\n", {Oracle.BOUNDS})):
        (tmp_path / "pids.max").write_text(most)
        assert oracles(Bounds(group).look()) == raised


def test_10_a_limit_that_was_raised_is_told_and_hides_nothing(tmp_path):
    (tmp_path / "pids.peak").write_text("1\n")
    (tmp_path / "pids.max").write_text("8\n")
    limits = Bounds(Cgroup({"pids": tmp_path}, unified=False))
    assert list(limits.look()) == []
    (tmp_path / "pids.max").write_text("max\n")
    assert oracles(limits.look()) == {Oracle.BOUNDS}
    (tmp_path / "pids.peak").write_text("9\n")
    assert [finding.what for finding in limits.look()] == ["pids.max was 8 and is max", "pids.peak is 9 of 8"]
    for file in tmp_path.iterdir():
        file.unlink()
    assert list(limits.look()) == []


async def test_10_a_peer_that_does_not_answer_is_told():
    async with Site.open() as site:
        peer = site._peer
        peer.cgroup.kill()
        await peer.sandbox.death
        assert oracles(await site.heartbeat()) == {Oracle.BOUNDS}


async def test_3_only_questions_for_names_may_leave_the_gateway():
    network = ipaddress.IPv4Network("127.77.7.0/30")
    with Uplink.open("lo", network) as uplink, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as guest:
        guest.bind((str(network[2]), 0))
        guest.sendto(b"?", (str(network[1]), 53))
        guest.sendto(b"!", (str(network[1]), 54))
        guest.sendto(b"!", ("127.0.0.1", 53))
        found: list[Finding] = []
        async with asyncio.timeout(10):
            while len(found) < 2:
                await asyncio.sleep(0.01)
                found += uplink.look()
    assert {finding.what.split(" to ")[1] for finding in found} == {
        f"{network[1]}:54 over the gateway",
        "127.0.0.1:53 over the gateway",
    }
