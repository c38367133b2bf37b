"""A sandbox that ends while it is needed is reported as lost with its cause, at once; limits that do not end it."""

import asyncio
import contextlib
import os
import pathlib
import signal

import pytest
import pytest_asyncio

from opensafe.errors import SandboxLost
from opensafe.model.limits import SandboxLimits
from opensafe.warden.sandbox.limits import Hierarchies
from tests.system.warden.support import Caller

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 1 << 20
EAT = "import sys; x = b'x' * (int(sys.argv[1]) << 20); print('ate', len(x))"
#: Takes memory and uses it, until it is refused.
HOG = """
taken = []
try:
    while True:
        taken.append(b"x" * (32 << 20))
except MemoryError:
    print("MemoryError", 32 * len(taken))
"""
FORK = """
import os, sys, time, errno
made = 0
try:
    for made in range(int(sys.argv[1])):
        if os.fork() == 0:
            time.sleep(100)
            os._exit(0)
except OSError as error:
    print(errno.errorcode[error.errno], made, flush=True)
else:
    print("all", flush=True)
"""


@pytest_asyncio.fixture(loop_scope="module")
async def fresh(client, front):
    """Makes sandboxes of one test's own."""
    made: list[Caller] = []

    async def make(**limits) -> Caller:
        made.append(await Caller(client, front).create(SandboxLimits(**limits)))
        return made[-1]

    yield make
    for caller in made:
        await caller.delete()


def members(host, caller) -> dict[str, int]:
    """Host processes of a sandbox by their name; a stub goes by its number."""
    found = {}
    for pid in Hierarchies.find(host.instance).group(caller.spec.sandbox_id).pids():
        with contextlib.suppress(OSError):
            name = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
            found[name or f"stub {pid}"] = pid
    return found


def throttled_periods(caller) -> int:
    groups = pathlib.Path("/sys/fs/cgroup").glob(f"**/{caller.spec.sandbox_id}/cpu.stat")
    counters = dict(line.split() for path in groups for line in path.read_text().splitlines())
    return int(counters["nr_throttled"])


async def state_of(client, caller):
    [state] = [one for one in await client.list_sandboxes() if one.sandbox_id == caller.spec.sandbox_id]
    return state.state, state.cause


async def test_memory_limit_ends_the_sandbox_with_cause_memory(fresh, client):
    small = await fresh(memory_bytes=128 * MIB)
    done = await small.run("python3", "-c", EAT, "400")
    assert (done.ended.kind, done.ended.detail) == ("lost", "memory")
    assert await state_of(client, small) == ("lost", "memory")


async def test_the_same_program_fits_a_larger_limit(fresh):
    large = await fresh(memory_bytes=1024 * MIB)
    assert (await large.run("python3", "-c", EAT, "400")).text == f"ate {400 * MIB}\n"


async def test_pids_limit_ends_the_sandbox_with_cause_pids(fresh, client):
    small = await fresh(pids=64)
    done = await small.run("python3", "-c", FORK, "300", processes=4096)
    assert (done.ended.kind, done.ended.detail) == ("lost", "pids")
    assert await state_of(client, small) == ("lost", "pids")


async def test_g46_a_process_limit_of_the_call_is_met_gracefully(fresh):
    caller = await fresh()
    done = await caller.run("python3", "-c", FORK, "300", processes=50)
    assert done.ended.kind == "exited"
    error, made = done.text.split()
    assert error == "EAGAIN"
    assert int(made) <= 50
    # The control, and the sandbox is well.
    assert (await caller.run("python3", "-c", FORK, "100")).text == "all\n"


async def test_a_memory_hog_with_the_default_limits_is_refused_and_its_sandbox_stays(fresh, client):
    caller = await fresh()
    done = await caller.run("python3", "-c", HOG)
    assert (done.ended.kind, done.text.split()[0]) == ("exited", "MemoryError"), done
    assert int(done.text.split()[1]) > 400
    assert await state_of(client, caller) == ("running", "")


async def test_g46_a_fork_bomb_with_the_default_limits_is_refused_and_its_sandbox_stays(fresh, client):
    caller = await fresh()
    bomb = await caller.start(caller.launch("bash", "-c", "exec 2>&1; bomb(){ bomb|bomb& wait; }; bomb"))
    async with asyncio.timeout(30):
        await bomb.said(b"fork: retry: Resource temporarily unavailable")
    await bomb.kill()
    assert (await bomb.end()).ended.kind == "signalled"
    assert await state_of(client, caller) == ("running", "")
    assert (await caller.sh("echo fine")).text == "fine\n"


async def test_ordinary_programs_fit_the_default_limits(fresh):
    caller = await fresh()
    script = """
        cd $(mktemp -d) && git init -q . && head -c 2M /dev/urandom > f && git add f &&
        git -c user.name=a -c user.email=a@b commit -qm m && git gc -q && git log --oneline | wc -l
        python3 -c 'import concurrent.futures as f; print(sum(f.ThreadPoolExecutor(8).map(abs, range(100))))'
        python3 -c 'print(len(b"x" * (400 << 20)))'
        seq 100000 | sort -R | sort -n | tail -1
    """
    done = await caller.sh(script)
    assert (done.text.split(), done.err) == (["1", "4950", str(400 * MIB), "100000"], b"")


async def test_address_space_file_size_and_descriptors_are_limited(fresh):
    caller = await fresh()
    assert b"MemoryError" in (await caller.run("python3", "-c", EAT, "400", address_space_bytes=256 * MIB)).err
    done = await caller.sh("head -c 2M /dev/zero > f; wc -c < f; ulimit -n", file_size_bytes=MIB, open_files=77)
    assert done.text.split() == [str(MIB), "77"]


async def test_r41_the_memory_file_systems_have_their_sizes(fresh):
    caller = await fresh(workspace_bytes=8 * MIB, tmp_bytes=4 * MIB, shm_bytes=2 * MIB)
    done = await caller.sh(
        "df -k --output=size /workspace /tmp /dev/shm | tail -n +2; head -c 9M /dev/zero > f; wc -c < f"
    )
    assert done.text.split() == ["8192", "4096", "2048", str(8 * MIB)]
    for place, size in (("/tmp", 4 * MIB), ("/dev/shm", 2 * MIB)):
        done = await caller.sh(f"head -c 9M /dev/zero > {place}/f; wc -c < {place}/f")
        assert (done.text.split(), b"No space left" in done.err) == ([str(size)], True)
    assert (await caller.sh("mount | grep -c tmpfs; touch /usr/x; touch /workspace/x")).ended.value == 0


async def test_cpu_is_limited(fresh):
    throttled = await fresh(cpu_millis=200)
    await throttled.run("python3", "-c", "import time; t = time.time()\nwhile time.time() < t + 1: pass")
    assert throttled_periods(throttled) > 0


@pytest.mark.parametrize(("victim", "cause"), [("runsc-sandbox", "killed"), ("runsc-gofer", "killed")])
async def test_r49_a_killed_part_loses_the_sandbox_and_what_runs_in_it(fresh, host, client, victim, cause):
    caller = await fresh()
    running = await caller.start(caller.launch("sleep", "1000"))
    os.kill(members(host, caller)[victim], signal.SIGKILL)
    async with asyncio.timeout(10):
        done = await running.end()
    assert (done.ended.kind, done.ended.detail) == ("lost", cause)
    assert await state_of(client, caller) == ("lost", cause)
    with pytest.raises(SandboxLost):
        await caller.sh("true")


async def test_r5_a_killed_sandbox_is_noticed_without_any_program(fresh, host, client):
    caller = await fresh()
    os.kill(members(host, caller)["runsc-sandbox"], signal.SIGKILL)
    async with asyncio.timeout(1):
        while (await state_of(client, caller))[0] != "lost":
            pass


async def test_a_killed_stub_is_no_silent_success(fresh, host):
    caller = await fresh()
    running = await caller.start(caller.launch("bash", "-c", "echo up; while :; do :; done"))
    await running.said(b"up")
    for name, pid in members(host, caller).items():
        if name.startswith("stub") or name == "exe":
            os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(20):
        done = await running.end()
    assert done.ended.kind in ("lost", "signalled")


async def test_a_deleted_sandbox_ends_its_programs(client, front):
    caller = await Caller(client, front).create()
    running = await caller.start(caller.launch("sleep", "1000"))
    await caller.delete()
    done = await running.end()
    assert (done.ended.kind, done.ended.detail) == ("lost", "killed")


async def test_r16_a_busy_sandbox_can_still_be_controlled(fresh):
    caller = await fresh(cpu_millis=500)
    hog = await caller.start(
        caller.launch("bash", "-c", "for i in 1 2 3 4 5 6; do (while :; do :; done) & done; echo up; wait")
    )
    await hog.said(b"up")
    assert (await caller.sh("echo fine")).text == "fine\n"
    await hog.kill()
    assert (await hog.end()).ended.kind == "signalled"


@pytest.mark.parametrize("mib", [96, 512])
async def test_r61_the_guest_is_told_its_own_limit_and_not_the_hosts_memory(fresh, mib):
    caller = await fresh(memory_bytes=mib * MIB)
    told = await caller.run(
        "python3", "-c", "import os; print(os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE'))"
    )
    listed = await caller.run("grep", "MemTotal", "/proc/meminfo")
    assert (int(told.text), listed.text.split()[1]) == (mib * MIB, str(mib << 10))
