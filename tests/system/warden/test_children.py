"""The unprivileged processes: what they are given, what they can't do, and that they come again."""

import asyncio
import contextlib
import json
import os
import pathlib
import resource
import signal
import sys

import pytest
import pytest_asyncio

from opensafe.model.calls import Program
from opensafe.model.ids import new_id
from opensafe.model.limits import CallLimits
from opensafe.model.sandbox import Launch, SandboxSpec
from opensafe.warden.children import Role
from opensafe.warden.waiting import readable
from opensafe.warden.warden import Warden
from tests.system.warden.support import DIGEST, Host

#: A front that states its situation as an audit record, then says that it serves and stays.
FRONT = """
import asyncio, json, os, pathlib, socket, sys
sys.path.insert(0, sys.argv[1])
from opensafe.warden.client import WardenClient

status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
def tried(action):
    try:
        action()
        return "done"
    except OSError as error:
        return error.errno

async def main():
    client = WardenClient(socket.socket(fileno=int(sys.argv[2])))
    report = await client.status()
    facts = {
        "pid": os.getpid(), "uid": os.getresuid(), "gid": os.getresgid(), "groups": os.getgroups(),
        "env": dict(os.environ),
        "caps": [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
        "nnp": status["NoNewPrivs"], "fds": sorted(map(int, os.listdir("/proc/self/fd")))[:-1],
        "platform": report.runsc_platform, "code": sys.argv[1],
        "write code": tried(lambda: open(sys.argv[1] + "/opensafe/x", "w")),
        "read ledger": tried(lambda: open(sys.argv[4])),
        "write ledger": tried(lambda: open(sys.argv[4], "ab")),
        "truncate audit": tried(lambda: os.ftruncate(int(sys.argv[3]), 0)),
        "sid": os.getsid(0) == os.getpid(),
    }
    os.write(int(sys.argv[3]), json.dumps(facts).encode() + b"\\n")
    await client.serving()
    await asyncio.Event().wait()

asyncio.run(main())
"""

#: A helper that watches and lets everything pass.
HELPER = """
import asyncio, socket, sys
sys.path.insert(0, sys.argv[1])
from opensafe.monitor.watcher import Watcher

class Judge:
    judges = True
    execution = fatal_call = lambda *_, **__: None

asyncio.run(Watcher(socket.socket(fileno=int(sys.argv[2])), Judge()).run())
"""


@pytest.fixture
def host(native):
    host = Host(native)
    yield host
    left = host.leftovers()
    host.remove()
    assert left == []


@contextlib.asynccontextmanager
async def serving(host):
    """A warden with children, being served."""

    def command(role, code, connection, further):
        if role is Role.HELPER:
            return [str(code.python), "-I", "-c", HELPER, str(code.source), str(further)]
        ledger = str(host.layout.state / "ledger.jsonl")
        return [str(code.python), "-I", "-c", FRONT, str(code.source), str(connection), str(further), ledger]

    async with await Warden.start(host.config, child_command=command) as warden:
        task = asyncio.create_task(warden.serve())
        yield warden
        await warden.stop_children()
        await task


@pytest_asyncio.fixture
async def served(host):
    async with serving(host) as warden:
        yield warden


async def said(warden, host) -> list[dict]:
    """What all fronts so far have stated, the last of which serves."""
    async with asyncio.timeout(20):
        await warden.front_serves.wait()
    return records(host)


def records(host):
    return [
        json.loads(line) for line in (host.layout.state / "audit" / "segment-000000.jsonl").read_text().splitlines()
    ]


async def test_a_front_has_what_it_needs_and_nothing_else(served, host):
    [facts] = await said(served, host)
    assert facts["platform"] == "systrap"
    assert len(set(facts["uid"])) == 1
    assert facts["uid"][0] > 0
    assert facts["groups"] in ([], facts["gid"][:1])
    assert facts["caps"] == ["0" * 16] * 5
    assert facts["nnp"] == "1"
    assert facts["sid"]
    # R50: three streams, the connection, the audit descriptor, and what the interpreter's event loop opened.
    assert facts["fds"][:3] == [0, 1, 2]
    assert len(facts["fds"]) <= 5 + 3
    assert facts["env"].keys() <= {"LANG", "PATH", "HOME", "USER", "LC_CTYPE"}
    assert facts["code"].startswith(str(host.layout.run))
    assert facts["write code"] in (13, 30)
    assert facts["read ledger"] == "done"  # it tells an auditor whether log and ledger agree
    assert facts["write ledger"] == 13
    assert facts["truncate audit"] == 1


@pytest.fixture
def few_files():
    """This process starts as a service does: with a low soft limit."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[0], resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def open_files(pid):
    """Soft and hard limit."""
    lines = pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines()
    [limits] = [line.split()[3:5] for line in lines if line.startswith("Max open files")]
    return [int(limit) for limit in limits]


async def test_children_may_hold_thousands_of_idle_connections(few_files, host):
    """65536 descriptors, or all that this host lets a process have. The warden has as many."""
    async with serving(host) as warden:
        [facts] = await said(warden, host)
        soft, hard = open_files(os.getpid())
        assert open_files(facts["pid"]) == [min(hard, 65536)] * 2
        assert soft >= min(hard, 65536) > 1024


async def test_children_start_from_an_environment_behind_a_symlink(host, monkeypatch):
    link = host.root / "venv"
    link.symlink_to(sys.prefix)
    monkeypatch.setattr(sys, "executable", str(link / pathlib.Path(sys.executable).relative_to(sys.prefix)))
    monkeypatch.setattr(sys, "prefix", str(link))
    async with serving(host) as warden:
        [facts] = await said(warden, host)
    assert facts["platform"] == "systrap"


async def test_a_front_that_dies_comes_again(served, host):
    [facts] = await said(served, host)
    served.front_serves.clear()
    os.kill(facts["pid"], signal.SIGKILL)
    first, second = await said(served, host)
    assert first["pid"] != second["pid"]


async def test_what_a_front_started_ends_with_it_and_its_sandboxes_stay(served, host):
    """The programs' pipes are gone with the front; the next one adopts the sandboxes."""
    [facts] = await said(served, host)
    spec = SandboxSpec(sandbox_id=new_id("sb"), image_digest=DIGEST)
    with served._lifecycle.reserved(spec):
        await served._lifecycle.create(spec)
    launch = Launch(
        sandbox_id=spec.sandbox_id,
        exec_id=new_id("exec"),
        program=Program(argv=("/bin/sleep", "1000"), env={}, cwd="/"),
        profile="default",
        limits=CallLimits(),
    )
    null = os.open("/dev/null", os.O_RDWR)
    with served._programs.reserved(launch):
        await served._programs.start(launch, null, null, null)
    os.close(null)
    os.kill(facts["pid"], signal.SIGKILL)
    async with asyncio.timeout(20):
        ending = await served._programs.wait(launch.exec_id)
    assert (ending.kind, ending.value) == ("signalled", 9)
    assert served._lifecycle.get(spec.sandbox_id).state == "running"


async def test_stopping_ends_the_children(served, host):
    [facts] = await said(served, host)
    pidfd = os.pidfd_open(facts["pid"])
    await served.stop_children()
    async with asyncio.timeout(20):
        await readable(pidfd)
    os.close(pidfd)
