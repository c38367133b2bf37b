"""The campaign's oracles that no planted breach of the command raises: each is shown what it looks for."""

import asyncio
import contextlib
import ipaddress
import os
import pathlib
import secrets
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import pytest

from opensafe.errors import HostUnsuitable
from opensafe.proof.campaign import bounds
from opensafe.proof.campaign.bounds import Bounds
from opensafe.proof.campaign.kernel import Kernel
from opensafe.proof.campaign.listening import Listening, frames_of
from opensafe.proof.campaign.oracles import Finding, Oracle
from opensafe.proof.campaign.processes import Tree
from opensafe.proof.campaign.site import Site
from opensafe.proof.campaign.uplink import Uplink
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


async def test_7_a_violation_of_a_filter_is_told_of_runsc_and_of_nobody_else():
    pids: set[int] = set()
    found: list[Finding] = []
    with contextlib.closing(Kernel()) as kernel, contextlib.closing(Kernel()) as other:
        async with asyncio.timeout(30):
            while not found:  # the kernel logs them when it comes to it, and not every one of many
                process = await asyncio.create_subprocess_exec(sys.executable, "-c", VIOLATING)
                assert await process.wait() == -signal.SIGSYS
                pids.add(process.pid)
                await asyncio.sleep(0.1)
                found += kernel.look(pids)
        assert oracles(found) == {Oracle.VIOLATION}
        assert list(other.look({pid + 1_000_000 for pid in pids})) == []


def test_7_and_11_what_the_kernel_said_and_nobody_could_read_is_a_fault_and_no_finding(monkeypatch):
    said = ["gap", "4,1,1,-;Oops: 0000\n", ""]

    def read(*_):
        line = said.pop(0)
        if line == "gap":
            raise BrokenPipeError
        if not line:
            raise BlockingIOError
        return line.encode()

    with contextlib.closing(Kernel()) as kernel:
        with kernel.heard():
            list(kernel.look(set()))
        hearing = kernel.heard()
        hearing.__enter__()
        with monkeypatch.context() as patched:
            patched.setattr(os, "read", read)
            assert oracles(kernel.look(set())) == {Oracle.KERNEL}  # what came after the gap
        with pytest.raises(HostUnsuitable, match="overwritten"):
            hearing.__exit__(None, None, None)
        with kernel.heard():
            pass


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
    # Under that name an interpreter does not find what belongs to it.
    found = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        words, executable=sys.executable, env=found, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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


@pytest.fixture
def link():
    """Both ends of a link on which nothing is sent but by the test."""
    ends = [f"c{secrets.token_hex(4)}{end}" for end in "ab"]
    subprocess.run(["ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]], check=True)
    try:
        for end in ends:
            quiet = pathlib.Path(f"/proc/sys/net/ipv6/conf/{end}/disable_ipv6")
            if quiet.exists():
                quiet.write_text("1")
            subprocess.run(["ip", "link", "set", end, "up"], check=True)
        while b"noop" in b"".join(subprocess.check_output(["ip", "link", "show", end]) for end in ends):
            time.sleep(0.01)  # until then the kernel drops what is sent
        yield ends
    finally:
        subprocess.run(["ip", "link", "delete", ends[0]], check=True)


NETWORK = ipaddress.IPv4Network("192.0.2.0/30")
HOST, GATEWAY, FOREIGN = NETWORK[1], NETWORK[2], ipaddress.IPv4Address("198.51.100.7")


def datagram(source, destination, port, *, protocol=17, fragment=0):
    head = struct.pack(">BBHHHBBH", 0x45, 0, 29, 0, fragment, 64, protocol, 0) + source.packed + destination.packed
    return 0x0800, head + struct.pack(">HHHH", 1024, port, 9, 0) + b"?"


def asking(source, destination):
    return 0x0806, struct.pack(">HHBBH6x", 1, 0x0800, 6, 4, 1) + source.packed + bytes(6) + destination.packed


async def over(link, *frames):
    """What is found where these come over it, and go the other way."""
    there, here = link
    with Uplink.open(here, NETWORK) as uplink, socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM) as sender:
        for kind, content in frames:
            sender.sendto(content, (here, kind, 0, 0, b"\xff" * 6))
            sender.sendto(content, (there, kind, 0, 0, b"\xff" * 6))
        # A frame is at the other end of such a link once the kernel has had its turn.
        sender.sendto(b"the last", (there, 0x88B5, 0, 0, b"\xff" * 6))
        found: list[str] = []
        async with asyncio.timeout(10):
            while "a frame of type 0x88b5 over the gateway" not in found:
                await asyncio.sleep(0.01)
                found += [finding.what for finding in uplink.look() if finding.oracle is Oracle.FRAME]
    return found[:-1]


async def test_3_questions_for_names_may_leave_the_gateway(link):
    assert await over(link, asking(GATEWAY, HOST), datagram(GATEWAY, HOST, 53)) == []


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (datagram(GATEWAY, HOST, 54), f"protocol 17 from {GATEWAY} to {HOST}:54"),
        (datagram(GATEWAY, HOST, 53, protocol=6), f"protocol 6 from {GATEWAY} to {HOST}:53"),
        (datagram(GATEWAY, HOST, 53, fragment=1), f"protocol 17 from {GATEWAY} to {HOST}:0"),
        (datagram(GATEWAY, FOREIGN, 53), f"protocol 17 from {GATEWAY} to {FOREIGN}:53"),
        (datagram(FOREIGN, HOST, 53), f"protocol 17 from {FOREIGN} to {HOST}:53"),
        (asking(GATEWAY, FOREIGN), "a frame of type 0x0806"),
        (asking(FOREIGN, HOST), "a frame of type 0x0806"),
        ((0x86DD, bytes(40)), "a frame of type 0x86dd"),
        ((0x0800, b"\x45"), "a frame of type 0x0800"),
    ],
    ids=[
        *("port", "protocol", "fragment", "destination", "source"),
        *("asks-for-another", "another-asks", "ipv6", "cut"),
    ],
)
async def test_3_and_nothing_else_may(link, frame, told):
    assert await over(link, frame) == [f"{told} over the gateway"]
