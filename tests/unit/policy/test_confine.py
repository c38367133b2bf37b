"""A worker's limits hold, and leave room for what is honest."""

import os
import pathlib
import signal
from collections.abc import Callable

import pytest

from opensafe.policy import confine

MEBI = 1 << 20


def confined(work: Callable[[], object]) -> str:
    """What becomes of `work` in a confined process: "done", the exception's name, or the signal's."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = "done"
        try:
            confine.confine()
            work()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
            said = type(error).__name__
        finally:
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    said = os.read(reading, 100).decode()
    os.close(reading)
    _, status = os.waitpid(child, 0)
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else said


@pytest.mark.parametrize(("size", "end"), [(confine.MEMORY + MEBI, "MemoryError"), (confine.MEMORY // 2, "done")])
def test_memory(size: int, end: str) -> None:
    assert confined(lambda: bytearray(size)) == end


@pytest.mark.parametrize(("size", "end"), [(confine.FILE + 1, "SIGXFSZ"), (MEBI, "done")])
def test_a_file(tmp_path: pathlib.Path, size: int, end: str) -> None:
    def write() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it and raises OSError
        with (tmp_path / "file").open("wb") as file:
            file.truncate(size)

    assert confined(write) == end


def test_it_is_the_first_to_go_where_memory_runs_out() -> None:
    def read() -> None:
        assert pathlib.Path("/proc/self/oom_score_adj").read_text() == "1000\n"

    assert confined(read) == "done"
