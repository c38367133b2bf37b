"""Files and trees written as other users of the image: whose they are, and where such a user may not write."""

import asyncio
import io
import json
import os
import subprocess
import sys
import tarfile

import pytest

from opensafe import errors
from tests.harness.daemon import running
from tests.system import users


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """A daemon whose site grants users."""
    with running(**users.settings(tmp_path_factory.mktemp("bundle"))) as daemon:
        yield daemon


@pytest.fixture
async def whose(shell):
    """whose(path): uid, gid and mode, as the sandbox sees them."""

    async def look(path):
        text = (
            "import json, os, stat\n"
            f"info = os.stat({path!r})\n"
            "print(json.dumps([info.st_uid, info.st_gid, oct(stat.S_IMODE(info.st_mode))]))\n"
        )
        return json.loads(await shell(text))

    return look


@pytest.fixture
async def room(files):
    """A directory in which everybody may write."""
    await files.mkdir("room", mode=0o777)
    return "/workspace/room"


@pytest.mark.parametrize(
    ("owner", "uid", "gid"), [("nobody", 65534, 65534), ("33", 33, 33), ("root", 0, 0), ("1000", 1000, 1000)]
)
@pytest.mark.parametrize("size", [5, (1 << 20) + 1])
async def test_a_file_is_its_owner_s(files, whose, room, owner, uid, gid, size):
    await files.write(f"{room}/file", b"x" * size, owner=owner, mode=0o640)
    assert await whose(f"{room}/file") == [uid, gid, "0o640"]
    assert (await files.stat(f"{room}/file")).size == size


async def test_without_one_it_is_the_sandbox_s_own(files, whose):
    await files.write("file", b"x")
    assert await whose("/workspace/file") == [1000, 1000, "0o644"]


async def test_a_file_that_is_replaced_changes_hands(files, whose, room):
    await files.write(f"{room}/file", b"mine")
    await files.write(f"{room}/file", b"theirs", owner="nobody", mode=0o604)
    assert await whose(f"{room}/file") == [65534, 65534, "0o604"]
    assert await files.read_bytes(f"{room}/file") == b"theirs"


async def test_directories_on_the_way_are_the_owner_s_too(files, whose, room):
    await files.write(f"{room}/a/b/file", b"x", owner="nobody")
    await files.mkdir(f"{room}/c/d", mode=0o750, parents=True, owner="www-data")
    assert await whose(f"{room}/a/b") == [65534, 65534, "0o755"]
    assert await whose(f"{room}/c/d") == [33, 33, "0o750"]


@pytest.mark.parametrize("owner", ["nobody", "root"])
async def test_where_the_owner_may_not_write_nothing_is_written(files, owner):
    with pytest.raises(errors.FileDenied):
        await files.write("file", b"x", owner=owner)
    with pytest.raises(errors.FileDenied):
        await files.mkdir("directory", owner=owner)
    with pytest.raises(errors.FileDenied):
        await files.upload("tree", _archive(), owner=owner)
    assert [entry.name async for entry in files.entries(".")] == []
    await files.write("file", b"x")  # the twin


async def test_an_owner_that_is_not_granted_is_blocked(files, room):
    with pytest.raises(errors.Denied) as caught:
        await files.write(f"{room}/file", b"x", owner="daemon")
    assert caught.value.rule == "caller.user.role"
    with pytest.raises(errors.Denied):
        await files.mkdir(f"{room}/directory", owner="daemon")
    with pytest.raises(errors.Denied):
        await files.upload(f"{room}/tree", _archive(), owner="daemon")
    assert [entry.name async for entry in files.entries(room)] == []


async def test_an_owner_that_is_unknown_or_can_be_none_is_a_typed_error(files, room):
    with pytest.raises(errors.UnknownUser, match="nobody"):
        await files.write(f"{room}/file", b"x", owner="nosuch")
    with pytest.raises(errors.InvalidArgument):
        await files.write(f"{room}/file", b"x", owner="no:body")
    with pytest.raises(errors.InvalidArgument):
        await files.write(f"{room}/file", b"x", owner="nobody", offset=0)
    assert [entry.name async for entry in files.entries(room)] == []


async def test_a_tree_is_its_owner_s_whatever_the_archive_says(files, whose, room):
    left = await files.upload(f"{room}/tree", _archive(), owner="nobody")
    assert left.count == 0
    assert await whose(f"{room}/tree") == [65534, 65534, "0o755"]
    assert await whose(f"{room}/tree/directory/file") == [65534, 65534, "0o640"]


async def test_the_command_line_has_it(daemon, sandbox, whose, room, tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    environment = {**os.environ, "OPENSAFE_SOCKET": str(daemon.socket_of("agent"))}

    async def cp(*arguments):
        command = [sys.executable, "-m", "opensafe.cli", "cp", "--owner", "nobody", *arguments]
        return await asyncio.to_thread(subprocess.run, command, env=environment, capture_output=True, text=True)

    done = await cp(str(tmp_path / "file"), f"{sandbox}:{room}/file")
    assert done.returncode == 0, done.stderr
    done = await cp("-r", str(tmp_path), f"{sandbox}:{room}/tree")
    assert done.returncode == 0, done.stderr
    assert (await whose(f"{room}/file"))[0] == (await whose(f"{room}/tree/file"))[0] == 65534
    done = await cp(f"{sandbox}:{room}/file", str(tmp_path / "out"))
    assert done.returncode != 0
    assert "--owner" in done.stderr


async def _archive():
    """A file in a directory, root's as the archive says."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, kind, mode in (("directory", tarfile.DIRTYPE, 0o755), ("directory/file", tarfile.REGTYPE, 0o4640)):
            info = tarfile.TarInfo(name)
            info.type, info.mode, info.uid, info.gid = kind, mode, 0, 0
            archive.addfile(info)
    yield packed.getvalue()
