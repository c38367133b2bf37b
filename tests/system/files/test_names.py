"""Listing, describing, removing, moving, making and watching, and what a guest plants in their way."""

import asyncio
import contextlib
import os

import pytest

from opensafe import errors
from tests.system.exec.support import eventually, held, until_output

ODD = ["new\nline", "n" * 255, "文件" * 40, " ", "-rf", "a\\b", "%2e%2e", "\u202egnp"]


async def names(files, path="."):
    return [entry.name async for entry in files.entries(path)]


async def test_a_page_follows_the_one_before(files, shell):
    await shell("for i in range(250): open(f'/workspace/{i:03}', 'w')")
    first = await files.list(".", page_size=100)
    assert (len(first.entries), bool(first.next_cursor)) == (100, True)
    await files.remove("050")
    await files.write("000-new", b"")
    second = await files.list(".", page_size=100, cursor=first.next_cursor)
    assert [entry.name for entry in second.entries] == [f"{i:03}".encode() for i in range(100, 200)]
    last = await files.list(".", page_size=100, cursor=second.next_cursor)
    assert (len(last.entries), last.next_cursor) == (50, "")


@pytest.mark.parametrize("cursor", ["0", "zz", "61" * 256, "61\n"])
async def test_a_cursor_that_is_none_is_refused(files, cursor):
    with pytest.raises(errors.InvalidArgument):
        await files.list(".", cursor=cursor)


@pytest.mark.parametrize("size", [-1, 10_001, 2**31 - 1])
async def test_R34_a_page_size_out_of_bounds_is_refused(files, size):
    with pytest.raises(errors.InvalidArgument):
        await files.list(".", page_size=size)


async def test_R40_odd_names_are_told_as_they_are(files, shell):
    for name in ODD:
        await files.write(f"odd/{name}", b"x")
    await shell("open(b'/workspace/odd/\\xff\\xfe', 'w')")
    assert await names(files, "odd") == sorted([name.encode() for name in ODD] + [b"\xff\xfe"])
    for name in ODD:
        assert await files.read_bytes(f"odd/{name}") == b"x"
        await files.move(f"odd/{name}", "odd/moved")
        await files.remove("odd/moved")


async def test_stat_tells_type_size_mode_time_and_target(files, shell):
    await files.write("file", b"0123456789", mode=0o640)
    await shell(
        "import os; os.symlink('no/such', '/workspace/link'); os.utime('/workspace/file', ns=(0, 5 * 10**9 + 1))"
    )
    info = await files.stat("file")
    assert (info.name, info.type, info.size, info.mode, info.mtime_unix_ns) == (
        b"file",
        "file",
        10,
        0o640,
        5 * 10**9 + 1,
    )
    link = await files.stat("/workspace/link")
    assert (link.type, link.target) == ("symlink", b"no/such")
    assert (await files.stat("/workspace")).type == "directory"


async def test_names_are_made_moved_and_removed(files):
    await files.mkdir("a/b", parents=True)
    await files.write("a/b/file", b"1")
    with pytest.raises(errors.FileExists):
        await files.mkdir("a")
    with pytest.raises(errors.DirectoryNotEmpty):
        await files.remove("a")
    with pytest.raises(errors.FileExists):
        await files.move("a/b/file", "a/b")
    await files.move("a", "c")
    with pytest.raises(errors.FileNotFound):
        await files.stat("a")
    with pytest.raises(errors.FileTooLarge):
        await files.remove("c", recursive=True, max_entries=1)
    await files.remove("c", recursive=True)
    assert await names(files) == []


async def test_what_policy_says_of_names(files, daemon):
    await files.write("file", b"1")
    before = daemon.starts()
    for wanted, rule in (
        (files.remove("/workspace", recursive=True), "tool.delete.scope.deny"),
        (files.remove("/etc/passwd"), "tool.delete.scope.deny"),
        (files.move("file", ".git/hooks/pre-commit"), "tool.write.vcs.deny"),
        (files.move("file", "/etc/cron.d/x"), "tool.write.path.allowlist"),
        (files.move(".env", "plain"), "tool.read.secrets.block"),
        (files.mkdir("/usr/local/x"), "tool.write.path.allowlist"),
    ):
        with pytest.raises(errors.Denied, match=rule):
            await wanted
    assert daemon.starts() == before


# what a guest plants

PLANTS = """
import os, socket
os.chdir('/workspace')
os.symlink('/etc/hostname', 'final')
os.symlink('/etc', 'intermediate')
os.symlink('no/such', 'dangling')
os.symlink('cycle-b', 'cycle-a'); os.symlink('cycle-a', 'cycle-b')
os.symlink('/proc/self/root', 'magic')
os.mkfifo('fifo')
socket.socket(socket.AF_UNIX).bind('socket')
os.mkdir('dir'); os.symlink('dir', 'inside'); open('dir/file', 'w').write('inside')
os.symlink('/dev/null', 'device')
"""


@pytest.fixture
async def planted(files, shell):
    await shell(PLANTS)
    return files


@pytest.mark.parametrize(
    ("path", "error"),
    [
        pytest.param("final", errors.FileOutside, id="R36-B15-final"),
        pytest.param("intermediate/hostname", errors.FileOutside, id="R36-B15-intermediate"),
        pytest.param("magic/etc/hostname", errors.FileOutside, id="R36-magic"),
        pytest.param("cycle-a", errors.FileOutside, id="R36-cyclic"),
        pytest.param("dangling", errors.FileNotFound, id="R36-dangling"),
        pytest.param("fifo", errors.WrongFileType, id="R36-FIFO"),
        pytest.param("socket", errors.WrongFileType, id="R36-socket"),
        pytest.param("device", errors.FileOutside, id="R36-device"),
        pytest.param("dir", errors.WrongFileType, id="directory"),
        pytest.param("inside/../../etc/hostname", errors.Denied, id="R37-B16-dots"),
        pytest.param("/workspace-evil/x", errors.Denied, id="B18-sibling"),
        pytest.param("/workspace/../etc/hostname", errors.Denied, id="G38-dots"),
        pytest.param("%2e%2e/etc/hostname", errors.FileNotFound, id="B17-encoded"),
    ],
)
async def test_nothing_is_read_through_what_a_guest_plants(planted, path, error):
    with pytest.raises(error):
        await planted.read_bytes(path)


async def test_R36_a_link_inside_leads_where_it_should(planted):
    assert await planted.read_bytes("inside/file") == b"inside"


@pytest.mark.parametrize("path", ["final", "intermediate/new", "magic/workspace/x", "cycle-a", "device"])
async def test_R36_nothing_is_written_through_what_a_guest_plants(planted, path):
    with pytest.raises(errors.FileOutside):
        await planted.write(path, b"changed")


@pytest.mark.parametrize("path", ["fifo", "socket", "dir"])
async def test_R36_only_files_are_replaced(planted, path):
    with pytest.raises(errors.WrongFileType):
        await planted.write(path, b"changed")


async def test_R37_a_dangling_link_is_filled_inside_and_refused_outside(files, shell):
    await shell(
        "import os; os.chdir('/workspace'); os.mkdir('d'); os.symlink('d/new', 'in'); os.symlink('/etc/new', 'out')"
    )
    await files.write("in", b"1")
    assert await files.read_bytes("d/new") == b"1"
    with pytest.raises(errors.FileOutside):
        await files.write("out", b"1")


async def test_G39_a_directory_swapped_for_a_link_in_a_race_never_leads_out(agent, session, sandbox, files):
    """A program of the guest's exchanges a directory with a link to /etc while files are read through it."""
    swapper = """
import os
os.chdir('/workspace'); os.mkdir('swap'); open('swap/hostname', 'w').write('ours'); os.symlink('/etc', 'other')
print('ready', flush=True)
while True:
    for a, b in (('swap', 'third'), ('other', 'swap'), ('swap', 'other'), ('third', 'swap')):
        os.rename(a, b)
"""
    await files.write("/tmp/swapper.py", swapper.encode())
    call = agent.call(session, sandbox, "swapper", "Exec", {"argv": ["python3", "/tmp/swapper.py"]})
    seen = set()
    async with contextlib.aclosing(call) as events:
        await until_output(events, b"ready")
        for _ in range(150):
            try:
                seen.add(await files.read_bytes("swap/hostname"))
            except (errors.FileNotFound, errors.FileOutside, errors.FileFailed) as error:
                seen.add(type(error))
    assert {item for item in seen if isinstance(item, bytes)} == {b"ours"}
    assert errors.FileOutside in seen  # the control: the link was met


# watching


async def test_watch_tells_what_happens_and_ends_with_its_reader(files, daemon, sandbox):
    await files.mkdir("d")
    async with contextlib.aclosing(files.watch(".", recursive=True)) as changes:
        assert (await anext(changes)).kind == "watching"
        await files.write("d/x\ny", b"1")
        seen = [await anext(changes)]
        while (seen[-1].kind, seen[-1].path) != ("moved_to", b"d/x\ny"):
            seen.append(await anext(changes))
        await files.remove("d", recursive=True)
        while (seen[-1].kind, seen[-1].path) != ("deleted", b"d"):
            seen.append(await anext(changes))
        assert any("file" in name for name in daemon.guest_processes(sandbox))  # the control: it was there
    async with asyncio.timeout(30):
        while any("file" in name for name in daemon.guest_processes(sandbox)):  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.01)


async def test_watch_tells_nothing_of_a_directory_that_left(files):
    await files.mkdir("d/in", parents=True)
    async with contextlib.aclosing(files.watch("d", recursive=True)) as changes:
        assert (await anext(changes)).kind == "watching"
        await files.move("d/in", "out")
        await files.write("out/later", b"1")
        await files.write("d/mark", b"1")
        seen = [await anext(changes)]
        while seen[-1].path != b"mark":
            seen.append(await anext(changes))
        assert [(one.kind, one.path) for one in seen[:-1] if not one.path.startswith(b".")] == [("moved_from", b"in")]
        await files.move("out", "d/back")
        while seen[-1].path != b"back/later":
            seen.append(await anext(changes))


async def test_watch_ends_when_its_directory_does(files):
    await files.mkdir("d")
    kinds = []
    async with asyncio.timeout(60):
        async for change in files.watch("d"):
            kinds.append(change.kind)
            if change.kind == "watching":
                await files.remove("d")
    assert kinds[-1] == "gone"


async def test_R44_descriptors_of_the_daemon_stay_the_same(daemon, files):
    await files.write("file", b"1")
    for _ in range(3):
        await files.read_bytes("file")
    before = held(daemon)
    for _ in range(100):
        await files.read_bytes("file")
        with pytest.raises(errors.FileNotFound):
            await files.read_bytes("missing")
    after = held(daemon)
    assert all(now <= then + 3 for now, then in zip(after, before, strict=True)), (before, after)


#: Reads 5,000 files of the image, and makes, renames, describes and removes as many of its own.
FILE_OPERATIONS = """
import os
found = (os.path.join(directory, name) for directory, _, names in os.walk('/usr') for name in names)
read = [open(path, 'rb').read(1) for path, _ in zip(found, range(5000)) if os.path.isfile(path)]
for i in range(5000):
    one, other = f'/workspace/one-{i}', f'/workspace/other-{i}'
    with open(one, 'wb') as file:
        file.write(b'x')
    os.rename(one, other)
    os.stat(other)
    os.unlink(other)
print(len(read))
"""


async def test_R44_10000_files_used_in_the_guest_leave_no_descriptor_on_the_host(daemon, sandbox, shell):
    """The sentry keeps the descriptors of files that it knows, up to a bound: the first round fills it."""
    own = [daemon.process_of(sandbox, name) for name in ("runsc-gofer", "runsc-sandbox")]

    async def counts():
        return held(daemon) + [len(os.listdir(f"/proc/{pid}/fd")) for pid in own]

    assert int(await shell(FILE_OPERATIONS)) > 4500
    before = await counts()
    for _ in range(2):
        await shell(FILE_OPERATIONS)
    room = [0, 2, 0, 2, 0, 64]  # threads of executors come and go; the sentry's cache is not exact
    await eventually(counts, lambda after: all(a <= b + more for a, b, more in zip(after, before, room, strict=True)))
    assert before[-1] > 100  # the control: these are the descriptors that files have
