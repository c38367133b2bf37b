"""Limits hold, by the host's files and by their effect, each beside a sandbox in which the limit is not met."""

import asyncio
import contextlib
import pathlib
import time

import pytest

from opensafe import errors
from opensafe.client import SandboxSize
from opensafe.model.outcome import OutcomeKind
from opensafe.warden.sandbox.limits import Hierarchies

pytestmark = [pytest.mark.root, pytest.mark.runsc]

MIB = 1 << 20
SMALL = SandboxSize(memory_bytes=128 * MIB, pids=64, cpu_millis=200, workspace_bytes=8 * MIB, tmp_bytes=4 * MIB)
EAT = "x = []\ntry:\n    while True: x.append(b'x' * (8 << 20))\nexcept MemoryError: print('refused', len(x) * 8)"
FORKS = "import os, time\nfor n in range(300):\n    if os.fork() == 0: time.sleep(60)\nprint('all')"
SPIN = "import time\nt = time.time()\nwhile time.time() < t + 1.5: pass"


@pytest.fixture
async def make(agent, session):
    async def make(**size):
        return (await agent.create_sandbox(session, size=SandboxSize(**size))).sandbox_id

    return make


def python(script):
    return "Bash", {"command": f"python3 - <<'EOF'\n{script}\nEOF"}


def group(daemon, sandbox, file):
    """What the host's group of the sandbox says in a file, whichever hierarchy has it."""
    at = Hierarchies.find((daemon.state / "instance").read_text()).group(sandbox)
    for directory in at.directories:
        if (path := pathlib.Path(directory, file)).exists():
            return path.read_text()
    raise LookupError(file)


def counters(text):
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}


def groups_of(pid):
    return pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()


async def test_b47_the_limits_are_those_of_the_group_in_which_the_sentry_is(daemon, agent, session):
    made = (await agent.create_sandbox(session, size=SMALL)).sandbox_id
    sentry, gofer = (daemon.process_of(made, name) for name in ("runsc-sandbox", "runsc-gofer"))
    hierarchies = len(Hierarchies.find("x").group(made).directories)
    for pid in (sentry, gofer):
        assert sum(line.endswith(f"/{made}") for line in groups_of(pid)) == hierarchies >= 1
    unified = Hierarchies.find("x").version == 2
    files = (
        {"memory.max": str(128 * MIB), "pids.max": "64", "cpu.max": "20000 100000"}
        if unified
        else {"memory.limit_in_bytes": str(128 * MIB), "pids.max": "64", "cpu.cfs_quota_us": "20000"}
    )
    assert {name: group(daemon, made, name).strip() for name in files} == files


async def test_memory_ends_the_sandbox_that_takes_too_much_and_no_other(agent, session, make):
    small, other = await make(memory_bytes=128 * MIB), await make(memory_bytes=128 * MIB)
    await agent.run_call(session, other, "before", "Bash", {"command": "echo kept > /workspace/f"})
    ate = await agent.run_call(session, small, "eat", *python(EAT))
    assert (ate.outcome.kind, ate.outcome.detail) == (OutcomeKind.LOST, "memory"), ate
    async with asyncio.timeout(10), contextlib.aclosing(agent.watch_sandboxes()) as changes:
        while (found := await agent.get_sandbox(small)).state != "lost":
            await anext(changes)
    assert found.cause == "memory"
    assert (await agent.run_call(session, other, "after", "Bash", {"command": "cat /workspace/f"})).stdout == b"kept\n"


async def test_the_same_program_is_refused_by_its_own_limit_in_a_larger_sandbox(agent, session, make):
    """The control: what ends the small one is the group's limit."""
    large = await make(memory_bytes=1536 * MIB)
    ate = await agent.run_call(session, large, "eat", *python(EAT))
    assert ate.stdout.startswith(b"refused")


async def test_b46_g46_forks_beyond_the_call_s_own_limit_fail_and_the_sandbox_stays(agent, session, make):
    made = await make(pids=1024)
    bomb = "ulimit -u unlimited 2>/dev/null; for i in $(seq 300); do sleep 60 & done; echo started; kill $(jobs -p)"
    forked = await agent.run_call(session, made, "bomb", "Bash", {"command": bomb})
    assert forked.outcome.kind is OutcomeKind.EXITED
    assert b"Resource temporarily unavailable" in forked.stderr
    assert (await agent.run_call(session, made, "next", "Bash", {"command": "echo on"})).stdout == b"on\n"


async def test_b46_a_group_s_limit_of_processes_below_the_call_s_ends_the_sandbox_as_pids(agent, session, make):
    tight, other = await make(pids=64), await make(pids=64)
    # In a file: as inline code it would wait for a reviewer.
    await agent.run_call(session, tight, "write", "Write", {"path": "forks.py", "content": FORKS})
    forked = await agent.run_call(session, tight, "fork", "Bash", {"command": "python3 forks.py"})
    assert (forked.outcome.kind, forked.outcome.detail) == (OutcomeKind.LOST, "pids")
    assert (await agent.run_call(session, other, "next", "Bash", {"command": "echo on"})).stdout == b"on\n"


async def test_a_spinning_program_gets_the_share_of_a_core_that_the_sandbox_has(daemon, agent, session, make):
    """By the group's own account: its ratio holds on a busy host as well."""
    throttled, free = await make(cpu_millis=200), await make(cpu_millis=2000)
    for sandbox in (throttled, free):
        spun = await agent.run_call(session, sandbox, f"spin-{sandbox}", *python(SPIN))
        assert spun.outcome.exit_code == 0
    stat = counters(group(daemon, throttled, "cpu.stat"))
    assert stat["nr_throttled"] >= stat["nr_periods"] // 2 > 0
    # The control has two cores, and a program of one thread can't use up that.
    assert counters(group(daemon, free, "cpu.stat"))["nr_throttled"] <= 3


@pytest.mark.parametrize(
    ("place", "size"),
    [("/workspace", "workspace_bytes"), ("/tmp", "tmp_bytes")],
)
async def test_r41_a_file_system_that_is_full_says_so_and_a_larger_one_takes_it(agent, session, make, place, size):
    fill = {"command": f"head -c 12M /dev/zero > {place}/f"}
    small, large = await make(**{size: 8 * MIB}), await make(**{size: 16 * MIB})
    full = await agent.run_call(session, small, "fill", "Bash", fill)
    assert full.outcome.exit_code == 1
    assert b"No space left on device" in full.stderr
    await agent.run_call(session, small, "clear", "Bash", {"command": f"rm {place}/f && echo x > {place}/g"})
    fits = await agent.run_call(session, large, "fits", "Bash", fill)
    assert fits.outcome.exit_code == 0


async def test_r61_the_guest_is_told_its_own_memory(agent, session, make):
    made = await make(memory_bytes=192 * MIB)
    told = await agent.run_call(session, made, "m", "Bash", {"command": "grep MemTotal /proc/meminfo"})
    assert told.stdout.split()[1] == str(192 << 10).encode()


FIELDS = ("memory_bytes", "pids", "cpu_millis", "workspace_bytes", "tmp_bytes", "shm_bytes", "root_overlay_bytes")


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", [-1, 1, 2**31 - 1, 2**53, 2**54, 2**63 - 1, 2**63, 2**64, -(2**63)])
async def test_r34_no_number_means_unlimited(agent, session, field, value):
    if value == 2**31 - 1 and field in (
        "workspace_bytes",
        "tmp_bytes",
        "shm_bytes",
        "root_overlay_bytes",
        "memory_bytes",
    ):
        pytest.skip("2 GiB, within its bounds")
    with pytest.raises((errors.InvalidArgument, errors.Denied)):
        await agent.create_sandbox(session, size=SandboxSize(**{field: value}))
    assert await agent.list_sandboxes(session_id=session) == ()


async def test_what_sandboxes_use_up_is_told_to_auditors_alone(agent, session, sandbox, reviewer):
    before = await reviewer.status()
    await agent.run_call(session, sandbox, "spin", *python(SPIN))
    after = await reviewer.status()
    assert after.sandbox_cpu_ns - before.sandbox_cpu_ns >= 200_000_000  # of 1.5 s, on a host that others share
    assert 0 < after.sandbox_memory_bytes < after.host_memory_bytes
    assert after.host_cpus >= 1
    assert 0 < after.self_test_unix_ns < time.time_ns()
    told = await agent.status()
    assert told.self_test_unix_ns == after.self_test_unix_ns
    assert (told.sandbox_cpu_ns, told.sandbox_memory_bytes, told.host_cpus, told.host_memory_bytes) == (None,) * 4
