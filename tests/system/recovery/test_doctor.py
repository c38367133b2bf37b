"""`doctor` sees one planted leftover of each kind, and its remedy, taken at its word, removes it."""

import asyncio
import contextlib
import json
import pathlib
import subprocess
import sys
import time

import pytest

from opensafe.cli import leftovers
from opensafe.cli.exits import Exit
from opensafe.model.ids import new_id

pytestmark = pytest.mark.root


def sh(command):
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True)


@pytest.fixture
def place(tmp_path):
    """A run directory of a daemon that is not there."""
    run = tmp_path / "run"
    for name in ("bundles", "runsc", "netns"):
        (run / name).mkdir(parents=True)
    return run


@pytest.fixture
def sandbox():
    return new_id("sb")


def process(place, sandbox, stack):
    arguments = ["runsc-sandbox", "-c", "print(flush=True); input()", sandbox]
    pipe = subprocess.PIPE
    child = stack.enter_context(subprocess.Popen(arguments, executable=sys.executable, stdin=pipe, stdout=pipe))
    stack.callback(child.kill)
    child.stdout.readline()


def orphan(stack):
    """A front by its words, whose parent has ended."""
    done = sh("exec -a opensafe.daemon.front sleep 1000 > /dev/null 2>&1 & echo $!")
    stack.callback(sh, f"kill -9 {int(done.stdout)}")
    words = pathlib.Path(f"/proc/{int(done.stdout)}/cmdline")
    while not words.read_bytes().startswith(b"opensafe.daemon.front"):  # still the shell that becomes it
        time.sleep(0.01)


def cgroup(place, sandbox, stack):
    path = pathlib.Path("/sys/fs/cgroup/pids")
    path = (path if path.is_dir() else path.parent) / f"opensafe-planted-{sandbox[-4:]}" / sandbox
    path.mkdir(parents=True)
    stack.callback(sh, f"rmdir {path} {path.parent}")
    member = stack.enter_context(subprocess.Popen(["sleep", "1000"]))
    stack.callback(member.kill)
    (path / "cgroup.procs").write_text(str(member.pid))


def mount(place, sandbox, stack):
    path = place / sandbox
    path.mkdir()
    stack.callback(sh, f"umount {path}")
    assert sh(f"mount -t tmpfs tmpfs {path}").returncode == 0


def netns(place, sandbox, stack):
    path = place / "netns" / sandbox
    path.touch()
    stack.callback(sh, f"umount {path}")
    assert (
        sh(f"unshare -n mount --bind /proc/self/ns/net {path} || mount --bind /proc/self/ns/net {path}").returncode == 0
    )


def link(place, sandbox, stack):
    name = f"planted{sandbox[-6:]}"
    stack.callback(sh, f"ip link delete {name}")
    done = sh(f"ip link add {name} type veth peer name {name[:-1]}x && ip link set {name} alias {sandbox}")
    assert done.returncode == 0, done.stderr


def bundle(place, sandbox, stack):
    (place / "bundles" / sandbox).mkdir()
    (place / "bundles" / sandbox / "config.json").touch()


def container(place, sandbox, stack):
    (place / "runsc" / f"runsc-{sandbox}.sock").touch()


def shm(place, sandbox, stack):
    path = pathlib.Path("/dev/shm", sandbox)
    path.touch()
    stack.callback(path.unlink, missing_ok=True)


def loop(place, sandbox, stack):
    file = place / sandbox
    file.write_bytes(bytes(1 << 20))
    made = sh(f"losetup -f --show {file}")
    if made.returncode != 0:
        pytest.skip(f"this host has no loop devices: {made.stderr.strip()}")
    stack.callback(sh, f"losetup -d {made.stdout.strip()}")


KINDS = (process, cgroup, mount, netns, link, bundle, container, shm, loop)


def of(place, sandbox):
    return [one for one in leftovers.find(place) if sandbox in f"{one.name} {one.said}"]


@pytest.mark.parametrize("plant", KINDS, ids=lambda plant: plant.__name__)
def test_each_kind_is_found_and_its_remedy_removes_it(place, sandbox, plant):
    assert of(place, sandbox) == []
    with contextlib.ExitStack() as stack:
        plant(place, sandbox, stack)
        [found] = of(place, sandbox)
        assert found.kind == plant.__name__
        done = sh(found.remedy)
        assert (done.returncode, done.stderr) == (0, "")
        assert of(place, sandbox) == []


def test_every_kind_has_its_control():
    assert leftovers.REMEDIES.keys() == {plant.__name__ for plant in KINDS}


def test_a_child_without_its_warden_is_a_leftover(place):
    def orphans():
        return [one for one in leftovers.find(place) if "opensafe.daemon.front" in one.said.split()]

    before = orphans()
    with contextlib.ExitStack() as stack:
        orphan(stack)
        [found] = set(orphans()) - set(before)
        assert sh(found.remedy).returncode == 0


def test_the_command_names_them_by_kind_and_ends_with_another_status(place, sandbox, tmp_path):
    another = new_id("sb")
    for name in sandbox, another:
        (place / "bundles" / name).mkdir()
    config = tmp_path / "opensafe.toml"
    config.write_text(f'[paths]\nrun = "{place}"\nstate = "{tmp_path}/state"\n')
    command = [sys.executable, "-m", "opensafe.cli", "doctor", "--config", config]
    told = subprocess.run([*command, "--json"], capture_output=True, text=True)
    assert told.returncode == Exit.GOAL_MISSED
    report = json.loads(told.stdout)
    path = f"{place}/bundles/{sandbox}"
    assert {"kind": "bundle", "name": path, "said": "", "remedy": f"rm -r {path}"} in report["details"]["leftovers"]
    [check] = [one for one in report["details"]["checks"] if one["name"] == "leftover bundle"]
    assert not check["ok"]
    assert all(f"rm -r {place}/bundles/{name}" in check["remedy"] for name in (sandbox, another))
    shown = subprocess.run(command, capture_output=True, text=True)
    assert path in shown.stdout
    assert "FAIL  leftover bundle" in shown.stdout


async def test_what_a_living_daemon_has_on_record_is_none_and_what_it_forgot_is_one(own_daemon):
    daemon = own_daemon()
    async with daemon.client() as agent:
        made = (await agent.create_sandbox(await agent.create_session("tester"))).sandbox.sandbox_id
    forgotten = new_id("sb")
    (daemon.run / "bundles" / forgotten).mkdir()
    found = leftovers.find(daemon.run, daemon.state)
    assert [one for one in found if made in f"{one.name} {one.said}"] == []
    assert [one.kind for one in found if forgotten in one.name] == ["bundle"]
    daemon.kill()

    def kinds():
        return {one.kind for one in leftovers.find(daemon.run, daemon.state) if made in f"{one.name} {one.said}"}

    async with asyncio.timeout(60):
        while not {"process", "cgroup", "netns", "bundle", "container"} <= kinds():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)  # its children go after it, and until then it counts as living
