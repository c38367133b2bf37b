"""What runs on the host for a probe ends with it, whatever it has started."""

import asyncio
import os
import select

import pytest

from opensafe.proof.escape import host

_PATIENCE_S = 20.0

#: Leaves a child that holds none of its streams.
_LEAVING = """
import subprocess
child = subprocess.Popen(["sleep", "600"], stdin=-3, stdout=-3, stderr=-3)
print(child.pid, flush=True)
"""


def ends(pid):
    """Whether a process has ended, or does within a moment: a group that was killed is not gone at once."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], _PATIENCE_S)[0])
    finally:
        os.close(process)


@pytest.mark.parametrize("run", ["bare", "command", "python"])
async def test_what_a_program_leaves_behind_is_killed_with_it(run):
    said: str | bytes
    match run:
        case "bare":
            said = await host.bare(_LEAVING)
        case "command":
            said = await host.command("python3", "-c", _LEAVING)
        case _:
            said = (await host.python("-c", _LEAVING)).stdout
    assert ends(int(said))


async def test_a_program_and_its_children_are_killed_where_it_is_waited_for_no_longer(tmp_path):
    told = tmp_path / "pids"
    os.mkfifo(told)
    script = f"{_LEAVING}\nimport os\nopen({str(told)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\nchild.wait()"
    waiting = asyncio.create_task(host.bare(script))
    pids = [int(word) for word in (await asyncio.to_thread(told.read_text)).split()]
    waiting.cancel()
    await asyncio.wait([waiting])
    assert len(pids) == 2
    assert all(map(ends, pids))


async def test_what_cannot_be_started_is_an_error():
    with pytest.raises(FileNotFoundError):
        await host.command("no-such-program-of-anybodys")


async def test_a_deadline_is_raised_and_ends_the_program():
    with pytest.raises(TimeoutError):
        await host.bare("import time; time.sleep(600)", deadline_s=0.1)
