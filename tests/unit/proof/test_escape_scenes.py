"""What the process boundary's scenes see on the host, whatever else is there."""

import os
import pathlib
import tty

import pytest

from opensafe.proof.escape.process import scenes
from opensafe.proof.escape.process.scenes import Terminal


@pytest.fixture
def ends():
    master, slave = os.openpty()
    tty.setraw(slave)
    for end in (master, slave):
        os.set_blocking(end, False)
    yield master, slave
    for end in (master, slave):
        os.close(end)


@pytest.mark.parametrize("noise", [b"", b"a prompt\n"])
@pytest.mark.parametrize(("to", "what"), [(0, "typed into"), (1, "written to")])
async def test_pr_10_the_mark_is_seen_at_either_end_of_the_terminal_behind_anything_else(ends, noise, to, what):
    scene = Terminal(*ends)
    mark = str(scene.facts["MARK"]).encode()
    for end in ends:
        os.write(end, noise)
    os.write(ends[to], mark)
    assert await scene.found(b"") == f"{len(noise + mark)} bytes were {what} the host's terminal"


async def test_pr_10_a_terminal_without_the_mark_is_as_it_was(ends):
    scene = Terminal(*ends)
    assert await scene.found(b"") == ""
    for end in ends:
        os.write(end, b"a prompt\n")
    assert await scene.found(str(scene.facts["MARK"]).encode()) == ""


@pytest.fixture
def key(monkeypatch):
    """The one that a scene takes."""
    number = int.from_bytes(os.urandom(3), "little")
    monkeypatch.setattr(os, "urandom", lambda _: number.to_bytes(3, "little"))
    return number + 1


def held(key, file=os.devnull):
    """What is there under a key (proc_sysvipc(5)), and what a file holds."""
    tables = {name: pathlib.Path("/proc/sysvipc", name).read_text() for name in ("shm", "sem")}
    there = [name for name, text in tables.items() for line in text.splitlines()[1:] if line.split()[0] == str(key)]
    return there, pathlib.Path(file).read_bytes() if os.path.exists(file) else None


async def test_pr_09_shared_memory_is_there_for_the_scene_and_gone_behind_it(key):
    async with scenes.shared() as scene:
        file = str(scene.facts["FILE"])
        there, nonce = held(key, file)
        assert (there, await scene.found(b"")) == (["shm", "sem"], "")
        assert await scene.found(nonce) == "the nonce of the host's shared memory came out"
    assert held(key, file) == ([], None)


async def test_pr_09_a_key_that_is_somebodys_is_left_to_them(key):
    semaphore = scenes._libc.semget(key, 1, 0o1600)
    try:
        with pytest.raises(FileExistsError, match="semget"):
            async with scenes.shared():
                pass
        assert held(key)[0] == ["sem"]
    finally:
        scenes._libc.semctl(semaphore, 0, 0)
