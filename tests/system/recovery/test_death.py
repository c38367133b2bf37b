"""A sandbox that dies is told of with its cause, whatever was going on in it; no other is touched."""

import asyncio
import contextlib
import os
import pathlib
import resource
import signal
import subprocess
import sys

import pytest

from opensafe import errors
from opensafe.client import Ended, SandboxSize, Started, Stdout
from opensafe.model.outcome import OutcomeKind
from opensafe.warden.sandbox.limits import Hierarchies
from tests.harness.daemon import Daemon, signal_process
from tests.system.exec.support import eventually
from tests.system.recovery.conftest import bury
from tests.system.recovery.support import Place, fresh

pytestmark = [pytest.mark.root, pytest.mark.runsc]

MIB = 1 << 20
PARTS = ("runsc-sandbox", "runsc-gofer")
BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
HOG = "kept = []\nwhile True:\n    try: kept.append(b'x' * (8 << 20))\n    except MemoryError: pass"


@pytest.fixture
async def two(agent, session):
    """A sandbox that is going to die, and its neighbour, which lives and says so."""
    dies, lives = [Place(agent, session, (await agent.create_sandbox(session)).sandbox.sandbox_id) for _ in range(2)]
    call = agent.call(session, lives.sandbox, fresh("stays"), "Bash", {"command": "echo up; cat"}, interactive=True)
    await said(call, b"up\n")
    yield dies, lives
    await call.send(b"still here\n")
    await said(call, b"still here\n")
    await call.close_stdin()
    assert [event async for event in call][-1].outcome.exit_code == 0


async def said(call, wanted):
    async for event in call:
        if isinstance(event, Stdout) and wanted in event.data:
            return
    raise AssertionError(f"the call ended without {wanted!r}")


async def lost(place, cause="killed"):
    """Until it is told of as lost."""
    row = await eventually(lambda: place.client.get_sandbox(place.sandbox), lambda row: row.state == "lost")
    assert row.cause == cause


@pytest.mark.parametrize("part", PARTS)
async def test_r5_r49_while_nothing_runs(daemon, two, part):
    signal_process(daemon.process_of(two[0].sandbox, part))
    await lost(two[0])
    with pytest.raises(errors.SandboxLost, match="killed"):
        await two[0].sh(fresh("late"), "true")


@pytest.mark.parametrize("part", PARTS)
async def test_r5_r49_under_a_call(daemon, two, part):
    call = two[0].client.call(two[0].session, two[0].sandbox, fresh("hit"), "Bash", {"command": "sleep 1000"})
    ended = None
    async for event in call:
        if isinstance(event, Started):
            os.kill(daemon.process_of(two[0].sandbox, part), signal.SIGKILL)
        if isinstance(event, Ended):
            ended = event.outcome
    assert (ended.kind, ended.detail) == (OutcomeKind.LOST, "killed")
    await lost(two[0])


@pytest.mark.parametrize("part", PARTS)
async def test_r49_while_it_is_paused(daemon, two, part):
    await two[0].client.pause_sandbox(two[0].sandbox)
    signal_process(daemon.process_of(two[0].sandbox, part))
    await lost(two[0])
    with pytest.raises(errors.SandboxLost, match="killed"):
        await two[0].client.resume_sandbox(two[0].sandbox)


@pytest.mark.parametrize("part", PARTS)
async def test_r49_while_it_is_made(daemon, two, part):
    """A creation whose sentry or gofer is killed as soon as there is one is refused, or its sandbox is told as lost."""
    client, session = two[0].client, two[0].session
    before = {row.sandbox_id for row in await client.list_sandboxes()}
    making = asyncio.create_task(client.create_sandbox(session))
    pid = await eventually(lambda: asyncio.to_thread(newest, daemon, before, part), lambda found: found)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    try:
        made = await making
    except errors.SandboxStartFailed:
        assert {row.sandbox_id for row in await client.list_sandboxes()} == before
    else:
        await lost(Place(client, session, made.sandbox.sandbox_id))
    assert (await client.create_sandbox(session)).sandbox.state == "running"  # the next one is well


def newest(daemon, before, part):
    """That part of a sandbox which is not among those before; 0 for none."""
    hierarchies = Hierarchies.find((daemon.state / "instance").read_text())
    for sandbox in hierarchies.present() - before:
        for pid in hierarchies.group(sandbox).pids():
            with contextlib.suppress(OSError):
                if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] == part.encode():
                    return pid
    return 0


async def test_r49_a_killed_stub_is_no_success_and_its_neighbours_live(daemon, two):
    call = two[0].client.call(
        two[0].session, two[0].sandbox, fresh("stub"), "Bash", {"command": "while true; do true; done"}
    )
    ended = None
    async for event in call:
        if isinstance(event, Started):
            for pid in stubs(daemon, two[0].sandbox):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if isinstance(event, Ended):
            ended = event.outcome
    assert ended.kind in (OutcomeKind.LOST, OutcomeKind.SIGNALLED)


def stubs(daemon, sandbox):
    """Host processes of the guest's programs."""
    at = Hierarchies.find((daemon.state / "instance").read_text()).group(sandbox)
    for pid in at.pids():
        with contextlib.suppress(OSError):
            if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode() not in PARTS:
                yield pid


@pytest.mark.parametrize(("program", "size"), [(BOMB, {"pids": 64}), (HOG, {"memory_bytes": 128 * MIB})])
async def test_r49_a_limit_that_is_hit_is_the_cause(two, program, size):
    client, session = two[0].client, two[0].session
    small = Place(client, session, (await client.create_sandbox(session, size=SandboxSize(**size))).sandbox.sandbox_id)
    done = await run_file(small, program)
    cause = "pids" if "pids" in size else "memory"
    assert (done.outcome.kind, done.outcome.detail) == (OutcomeKind.LOST, cause)
    await lost(small, cause)


@pytest.mark.parametrize("program", [BOMB, HOG], ids=["bomb", "hog"])
async def test_r16_control_is_answered_beside_a_fork_bomb_and_a_memory_hog(agent, two, program):
    burning, other = two
    await write(burning, program)
    arguments = {"argv": ["python3", "/workspace/burn.py"]}
    call = fresh("burns")
    async for _ in agent.call(burning.session, burning.sandbox, call, "Exec", arguments, background=True):
        pass
    async with asyncio.timeout(60):
        assert (await agent.get_sandbox(burning.sandbox)).state == "running"
        assert await agent.health()
        assert (await other.sh(fresh("other"), "echo well")).stdout == b"well\n"
        await agent.pause_sandbox(burning.sandbox)
        await agent.resume_sandbox(burning.sandbox)
        await agent.signal_call(burning.session, call, signal.SIGKILL, whole_tree=True)
        await agent.delete_sandbox(burning.sandbox)


async def write(place, program):
    content = {"path": "/workspace/burn.py", "content": program}
    await place.client.run_call(place.session, place.sandbox, fresh("write"), "Write", content)


async def run_file(place, program):
    await write(place, program)
    arguments = {"argv": ["python3", "/workspace/burn.py"], "timeout_ms": 60_000}
    return await place.client.run_call(place.session, place.sandbox, fresh("burn"), "Exec", arguments)


async def test_r50_no_process_holds_a_network_namespace_and_children_hold_only_their_own(daemon, two):
    pids = [daemon.pid, daemon.child("front"), daemon.child("helper")]
    for place in two:
        pids += [daemon.process_of(place.sandbox, part) for part in PARTS]
    for pid in pids:
        held = held_by(pid)
        assert held
        assert [name for name in held if name.startswith("net:") or "/netns/" in name] == []
    own = {network(daemon.process_of(place.sandbox, PARTS[0])) for place in two}
    assert len(own & networks()) == 2
    await two[0].client.delete_sandbox(two[0].sandbox)
    assert len(own & networks()) == 1  # that of the one that was deleted is gone


def held_by(pid):
    return [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]


def network(pid):
    return os.readlink(f"/proc/{pid}/ns/net")


def networks():
    """Of all processes."""
    seen = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                seen.add(network(name))
    return seen


class Few(Daemon):
    """A daemon whose children have 64 descriptors."""

    @property
    def command(self):
        few = "from opensafe.warden import children; children._OPEN_FILES = 64"
        code = f"import pathlib; {few}; from opensafe import daemon; daemon.up(pathlib.Path({str(self.settings)!r}))"
        return [sys.executable, "-c", code]


@pytest.fixture
def few():
    daemon = Few()
    try:
        yield daemon.start()
        assert daemon.stop() == 0
    finally:
        bury(daemon)


@pytest.mark.parametrize("role", ["front", "warden"])
async def test_g53_with_64_descriptors_requests_are_refused_and_later_ones_served(few, role):
    front = few.child("front")
    async with few.client() as client:
        place = await Place.make(client)
        assert (await place.sh(fresh("before"), "echo well")).stdout == b"well\n"
        if role == "warden":
            hard = resource.prlimit(few.pid, resource.RLIMIT_NOFILE)[1]
            resource.prlimit(few.pid, resource.RLIMIT_NOFILE, (64, hard))
        refused = await (many_calls(place) if role == "warden" else many_clients(few))
        assert refused > 0  # the control: there were too many

        async def answered():
            with contextlib.suppress(errors.OpenSafeError):
                return (await place.sh(fresh("after"), "echo well")).stdout

        await eventually(answered, lambda said: said == b"well\n")
        async with few.client() as later:
            assert [row.state for row in await later.list_sandboxes()] == ["running"]
    assert few.child("front") == front


def test_g53_a_host_that_allows_no_more_is_refused_by_name():
    daemon = Daemon()
    fewer = 'ulimit -n 64; exec setpriv --bounding-set=-sys_resource --inh-caps=-sys_resource "$@"'
    done = subprocess.run(["sh", "-c", fewer, "sh", *daemon.command], capture_output=True, text=True)
    assert daemon.remove() == []
    assert done.returncode == 78
    assert "too few open files for a daemon; got 64" in done.stderr


#: What a client of HTTP/2 begins with (RFC 9113, 3.4), to which the server answers at once.
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"


async def many_clients(daemon):
    """More connections than descriptors; how many of them were not taken. gRPC's own would share one."""
    opened = [await asyncio.open_unix_connection(str(daemon.socket_of("agent"))) for _ in range(80)]
    try:
        answers = await asyncio.gather(*(greeted(*one) for one in opened))
    finally:
        for _, writer in opened:
            writer.close()
    return answers.count(False)


async def greeted(reader, writer):
    writer.write(HELLO)
    try:
        async with asyncio.timeout(3):
            return await reader.read(9) != b""
    except (OSError, TimeoutError):
        return False


async def many_calls(place):
    """More running calls than the warden has descriptors for; how many were not run."""
    calls = [place.sh(fresh("many"), "sleep 2") for _ in range(40)]
    done = await asyncio.gather(*calls, return_exceptions=True)
    told = [one.outcome if not isinstance(one, BaseException) else one for one in done]
    for one in told:
        if isinstance(one, errors.OpenSafeError):
            assert isinstance(one, errors.LimitExceeded), one
        else:
            assert one.kind is OutcomeKind.EXITED or "descriptors" in one.detail, one
    return sum(isinstance(one, BaseException) or one.kind is not OutcomeKind.EXITED for one in told)
