"""Sandboxes are made whole or not at all, and removed without a trace."""

import asyncio
import json
import os
import pathlib

import pytest

from opensafe.errors import Conflict, LimitExceeded, NotFound, SandboxStartFailed
from opensafe.model.ids import new_id
from opensafe.model.sandbox import SandboxSpec
from opensafe.warden.network import namespaces
from opensafe.warden.sandbox import limits
from opensafe.warden.sandbox.control import ControlDriver
from opensafe.warden.sandbox.runsc import Runsc
from tests.system.warden.support import DIGEST, Caller

pytestmark = pytest.mark.asyncio(loop_scope="module")


def of_sandbox(host, sandbox_id):
    found = [line for line in host.leftovers() if sandbox_id in line]
    return found + [str(path) for path in pathlib.Path("/sys/fs/cgroup").glob(f"**/{sandbox_id}")]


def confinement(pid):
    """NoNewPrivs and Seccomp of every thread of a process."""
    threads = [status.read_text().splitlines() for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status")]
    fields = [dict(line.split(":\t", 1) for line in lines if ":\t" in line) for lines in threads]
    return {(one["NoNewPrivs"], one["Seccomp"]) for one in fields}


async def test_a_sandbox_is_removed_completely(client, front, host):
    caller = await Caller(client, front).create()
    assert of_sandbox(host, caller.spec.sandbox_id)  # the control
    await caller.delete()
    assert of_sandbox(host, caller.spec.sandbox_id) == []
    with pytest.raises(NotFound):
        await caller.delete()


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (limits.Cgroup, "create"),
        (namespaces, "create"),
        (Runsc, "create"),
        (ControlDriver, "start"),
    ],
)
async def test_r62_a_step_that_fails_leaves_nothing(client, front, host, monkeypatch, owner, name):
    """The step is done and then reports a failure, so that it too has to be undone."""
    original = getattr(owner, name)

    async def failing(*arguments, **options):
        await original(*arguments, **options)
        raise OSError(28, "No space left on device")

    def failing_at_once(*arguments, **options):
        original(*arguments, **options)
        raise OSError(28, "No space left on device")

    caller = Caller(client, front)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, failing if asyncio.iscoroutinefunction(original) else failing_at_once)
        with pytest.raises(SandboxStartFailed, match="No space left"):
            await caller.create()
    assert of_sandbox(host, caller.spec.sandbox_id) == []
    assert await client.list_sandboxes() == ()


async def test_runsc_itself_failing_is_reported_with_its_words(client, front, host, monkeypatch):
    caller = Caller(client, front)
    with monkeypatch.context() as patch:
        patch.setattr("opensafe.warden.sandbox.runsc.PLATFORM", "none-such")
        with pytest.raises(SandboxStartFailed, match="none-such"):
            await caller.create()
    assert of_sandbox(host, caller.spec.sandbox_id) == []


async def test_an_image_that_does_not_exist_is_refused(client, front):
    with pytest.raises(SandboxStartFailed, match="missing"):
        await Caller(client, front).create(template="none-such")


async def test_no_file_of_the_host_is_seen(client, front, host):
    caller = await Caller(client, front).create()
    marker = host.root / "marker"
    marker.write_text("host")
    done = await caller.sh(f"cat {marker} /proc/1/root{marker}; ls /root /srv; touch /usr/bin/x /etc/passwd")
    assert done.out.strip() == b"/srv:"
    assert done.err.count(b"cannot touch") == 2
    await caller.delete()


async def test_each_sandbox_is_alone(client, front):
    """FS-20: files, shared memory and processes of one are not there in the other."""
    first, second = await asyncio.gather(Caller(client, front).create(), Caller(client, front).create())
    await first.sh("echo secret | tee /workspace/a /tmp/b /dev/shm/c > /dev/null")
    running = await first.start(first.launch("sleep", "1000"))
    seen = await second.sh("cat /workspace/a /tmp/b /dev/shm/c; ls /proc | grep -c '^[0-9]'")
    assert seen.text.split() == ["5"]  # init, runner, bash, ls, grep
    await running.kill()
    await running.end()
    await asyncio.gather(first.delete(), second.delete())


async def test_the_whole_runsc_tree_is_confined(client, front, host):
    """SY-09: every thread has no_new_privs and a filter, and is in the cgroup."""
    caller = await Caller(client, front).create()
    group = limits.Hierarchies.find(host.instance).group(caller.spec.sandbox_id)
    pids = group.pids()
    by_name = {int(line.split()[1]): line for line in host.processes()}
    assert by_name
    assert by_name.keys() - pids == set(), by_name
    for pid in pids:
        assert confinement(pid) == {("1", "2")}
    await caller.delete()


async def test_sy_12_the_bundle_on_disk_holds_no_annotation_hook_or_device(client, front, host):
    caller = await Caller(client, front).create()
    config = json.loads((host.layout.bundle(caller.spec.sandbox_id) / "config.json").read_text())
    assert config.keys() == {"ociVersion", "hostname", "root", "process", "mounts", "linux"}
    assert config["linux"].keys() == {"namespaces"}
    assert config["root"]["readonly"] is True
    await caller.delete()


async def test_ids_are_used_once_at_a_time_and_the_cap_holds(client, front, warden, monkeypatch):
    caller = await Caller(client, front).create()
    with pytest.raises(Conflict):
        await client.create_sandbox(caller.spec, front.decide(caller.spec))
    monkeypatch.setattr(warden._lifecycle, "_limit", 1)
    spec = SandboxSpec(sandbox_id=new_id("sb"), image_digest=DIGEST)
    with pytest.raises(LimitExceeded, match="no more sandboxes"):
        await client.create_sandbox(spec, front.decide(spec))
    await caller.delete()


async def test_r44_many_sandboxes_leave_no_descriptor_and_no_thread(client, front):
    async def one():
        caller = await Caller(client, front).create()
        await caller.sh("true")
        await caller.delete()

    await one()
    before = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    await asyncio.gather(*(one() for _ in range(4)))
    await asyncio.gather(*(one() for _ in range(4)))
    after = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    # Threads of the default executor stay; descriptors may not.
    assert after[0] == before[0]
