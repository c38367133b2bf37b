"""A worker's limits hold, and leave room for what is honest."""

import pathlib
import signal
import subprocess
import sys

import pytest

from opensafe.policy import confine

MEBI = 1 << 20


def confined(work: str) -> str:
    """What becomes of `work` in a confined process of its own: what it prints, the exception's name or the signal's."""
    program = f"import pathlib\nfrom opensafe.policy import confine\nconfine.confine()\n{work}"
    # Fresh, as workers are: the limit counts what a process has already, and this one has many tests behind it.
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if ended.returncode < 0:
        return signal.Signals(-ended.returncode).name
    return ended.stdout or ended.stderr.splitlines()[-1]


@pytest.mark.parametrize(("size", "end"), [(confine.MEMORY + MEBI, "MemoryError"), (confine.MEMORY // 2, "done")])
def test_memory(size: int, end: str) -> None:
    assert confined(f"bytearray({size}); print('done', end='')") == end


@pytest.mark.parametrize(("size", "end"), [(confine.FILE + 1, "SIGXFSZ"), (MEBI, "done")])
def test_a_file(tmp_path: pathlib.Path, size: int, end: str) -> None:
    # Python ignores the signal and raises OSError.
    work = f"""
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
with open({str(tmp_path / "file")!r}, "wb") as file:
    file.truncate({size})
print("done", end="")
"""
    assert confined(work) == end


def test_it_is_the_first_to_go_where_memory_runs_out() -> None:
    assert confined("print(pathlib.Path('/proc/self/oom_score_adj').read_text(), end='')") == "1000\n"
