"""What the process boundary's scenes see on the host, whatever else is there."""

import os
import tty

import pytest

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
