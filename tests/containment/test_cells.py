"""What the suite's verdicts stand on: cells that are as weak as they say, and a host that sees what was done to it."""

import asyncio
import os
import pathlib
import re
import signal

import msgspec
import pytest

from opensafe.errors import InvalidArgument
from opensafe.model.ids import new_id
from opensafe.model.sandbox import SandboxSpec
from opensafe.proof.escape import guest, host
from opensafe.proof.escape.cell import Cells
from opensafe.proof.escape.host import BELOW
from opensafe.proof.escape.ways import ALL_CAPABILITIES
from opensafe.proof.escape.weakening import AS_SHIPPED, Bind, Weakening, shared
from opensafe.warden import protocol
from opensafe.warden.sandbox import spec

needs_a_sandbox = [pytest.mark.root, pytest.mark.runsc]
PLACES = spec.Places(
    **{name: pathlib.Path("/x") for name in ("rootfs", "guest_tools", "resolv_conf", "hosts", "network")}
)
SHIPPED = spec.oci_spec(SandboxSpec(sandbox_id=new_id("sb")), PLACES)


def test_no_weakening_is_as_the_warden_makes_it():
    assert AS_SHIPPED.applied(SHIPPED) == SHIPPED
    assert AS_SHIPPED.options() == ()
    assert not AS_SHIPPED


def test_no_operation_of_the_wardens_can_express_a_weakening():
    decode = msgspec.json.Decoder(protocol.CreateSandbox).decode
    decision = {"segment": 1, "offset": 0, "length": 1, "leaf": "0" * 64}
    head = {"type": "CreateSandbox", "request": 1, "decision": decision}
    sandbox = {"sandbox_id": new_id("sb")}
    decode(msgspec.json.encode({**head, "spec": sandbox}))
    for field in Weakening.__struct_fields__:
        more = {field: getattr(AS_SHIPPED, field)}
        for asked in ({**head, **more, "spec": sandbox}, {**head, "spec": {**sandbox, **more}}):
            with pytest.raises(msgspec.ValidationError, match="unknown field"):
                decode(msgspec.json.encode(asked))


def test_a_weakening_that_would_change_the_image_is_refused(tmp_path):
    (tmp_path / "mnt").mkdir()
    shared(tmp_path, "/mnt").check(tmp_path)
    for weakening in (
        shared(tmp_path, "/new"),
        Weakening(root_writable=True),
        Weakening(root_writable=True, root=tmp_path),
    ):
        with pytest.raises(InvalidArgument):
            weakening.check(tmp_path)


def test_an_output_tells_its_beginning_its_end_and_what_answered():
    mark = host.nonce()
    output = f"probe began {mark}\ntried a: EXDEV\ntried b: SIGSYS\ntried c: done\nprobe done\n".encode()
    told = guest.told(output, mark)
    assert (told.began, told.finished, len(told.hints)) == (True, True, 3)
    assert told.layer == "call filter: EXDEV, call filter: SIGSYS"
    assert guest.told(output, mark, filtered=False).layer == "across mounts: EXDEV, call filter: SIGSYS"
    assert not guest.told(output, host.nonce()).began
    assert not guest.told(output[:40], mark).finished


@pytest.fixture(scope="module")
def planted():
    with host.Canary.planted() as canary:
        yield canary


async def test_a_canary_sees_what_was_changed_and_what_came_out():
    with host.Canary.planted() as canary:
        assert (canary.changed(), canary.read_in("nothing")) == ("", "")
        assert canary.read_in(b"..." + canary.nonce.encode())
        os.utime(canary.file)
        assert not canary.changed()
        canary.file.chmod(0o600)
        assert canary.changed() == "canary is another on the host"
        (canary.directory / "a").symlink_to("b")
        assert canary.changed() == "a is new on the host"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGCONT, signal.SIGUSR1])
async def test_a_marker_tells_the_signal_that_it_got(number):
    async with host.Marker.running() as marker:
        os.kill(marker.pid, number)
        assert await marker.signalled() == f"the marker got signal {int(number)}"


async def test_a_marker_that_was_killed_or_left_alone_tells_so():
    async with host.Marker.running() as marker:
        assert await marker.signalled() == ""
    async with host.Marker.running() as marker:
        os.kill(marker.pid, signal.SIGKILL)
        assert await marker.signalled() == "the marker ended with -9"


def limits(directories):
    """What stands in the files of a group that limit its processes."""
    paths = [pathlib.Path(at, "pids.max") for at in directories]
    return [path.read_text() for path in paths if path.exists()]


def mounted():
    return pathlib.Path("/proc/self/mountinfo").read_text()


class TestCells:
    pytestmark = needs_a_sandbox

    async def test_a_cell_as_shipped_has_no_privilege_and_no_host(self, planted):
        async with Cells.open() as cells, cells.cell() as cell:
            say = f"cat /proc/self/status; cat {planted.file}; env"
            done = await cell.run(cell.launch("sh", "-c", say))
            assert re.search(r"Uid:\s+1000", done.text)
            assert re.search(r"CapEff:\s+0+\n", done.text)
            assert re.search(r"NoNewPrivs:\s+1\nSeccomp:\s+2", done.text)
            assert not planted.read_in(done.text)
            unfiltered = await cell.unfiltered(cell.launch("cat", "/proc/self/status"))
            assert re.search(r"Seccomp:\s+0", unfiltered.text)
            root = await cell.raw("/bin/cat", "/proc/self/status", capabilities=("CAP_MKNOD",))
            assert re.search(r"CapEff:\s+0000000008000000", root.text)

    @pytest.mark.parametrize("writable", [False, True])
    async def test_what_is_mounted_can_be_read_and_written_only_where_it_says_so(self, writable):
        with host.Canary.planted() as canary:
            async with Cells.open() as cells, cells.cell(shared(BELOW, str(BELOW), writable=writable)) as cell:
                read = await cell.run(cell.launch("cat", str(canary.file)))
                await cell.run(cell.launch("touch", f"{canary.directory}/new"))
            assert canary.read_in(read.text)
            assert bool(canary.changed()) is writable

    async def test_a_secret_of_the_environment_is_there(self):
        async with Cells.open() as cells, cells.cell(Weakening(environment={"SECRET": "x1y2"})) as cell:
            assert "SECRET=x1y2" in (await cell.run(cell.launch("env"))).text
            first = await cell.raw("/bin/cat", "/proc/1/environ", capabilities=ALL_CAPABILITIES)
            assert "SECRET=x1y2" in first.text

    async def test_the_hosts_network_and_its_limits_are_where_they_are_asked_for(self):
        async with Cells.open() as cells:
            async with cells.cell(Weakening(host_network=True, unlimited=True)) as cell:
                done = await cell.unfiltered(cell.launch("cat", "/proc/net/dev"))
                assert all(name in done.text for name in os.listdir("/sys/class/net"))
                assert "max\n" in limits(cell.cgroup.directories)
            async with cells.cell() as cell:
                assert "eth" not in (await cell.unfiltered(cell.launch("cat", "/proc/net/dev"))).text

    async def test_input_of_any_size_comes_and_a_program_past_its_deadline_ends(self):
        async with Cells.open() as cells, cells.cell() as cell:
            await cell.put("/workspace/large", b"x" * 300_000)
            done = await cell.run(cell.launch("sh", "-c", "wc -c < /workspace/large; exit 3"))
            assert (done.stdout.strip(), done.ending.value) == (b"300000", 3)
            with pytest.raises(TimeoutError):
                await cell.run(cell.launch("sleep", "60"), deadline_s=0.2)
            assert "sleep" not in (await cell.unfiltered(cell.launch("ps", "ax"))).text

    @pytest.mark.parametrize("how", ["run", "unfiltered", "raw"])
    async def test_what_a_program_wrote_outlives_the_sandbox_that_it_ends_with(self, how):
        words = ("sh", "-c", "echo written; exec sleep 60")
        async with Cells.open() as cells, cells.cell() as cell:
            ways = {
                "run": lambda: cell.run(cell.launch(*words)),
                "unfiltered": lambda: cell.unfiltered(cell.launch(*words)),
                "raw": lambda: cell.raw("/bin/sh", *words[1:]),
            }
            program = asyncio.create_task(ways[how]())
            async with asyncio.timeout(30):
                names: set[str] = set()
                while "sleep" not in names:
                    await asyncio.sleep(0.01)
                    names = {one.name for one in await cell.driver.processes(cell.sandbox.container)}
                cell.cgroup.kill()
                assert (await program).stdout == b"written\n"

    async def test_nothing_of_a_cell_is_left(self):
        async with Cells.open() as cells:
            async with cells.cell(Weakening(binds=(Bind(source=BELOW, destination="/mnt"),))) as cell:
                groups = [pathlib.Path(at) for at in cell.cgroup.directories]
                pids = cell.cgroup.pids()
                assert pids
            assert not any(group.exists() for group in groups)
            run = cells.layout.run
        assert not run.exists()
        assert str(run) not in mounted()
