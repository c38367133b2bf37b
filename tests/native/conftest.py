import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def open_directory(prefix):
    """A directory that every user can reach and root owns: pytest's own are closed to others."""
    with tempfile.TemporaryDirectory(prefix=prefix) as name:
        path = pathlib.Path(name)
        path.chmod(0o755)
        yield path


@pytest.fixture(scope="session", autouse=True)
def signals_count():
    """Programs inherit that a signal is ignored: SIGHUP under nohup, SIGINT and SIGQUIT in a shell's background."""
    own = {signal.SIGPIPE, signal.SIGXFSZ}  # Python ignores these itself, and lets no child inherit it
    ignored = [one for one in signal.valid_signals() - own if signal.getsignal(one) is signal.SIG_IGN]
    for one in ignored:
        signal.signal(one, signal.SIG_DFL)
    yield
    for one in ignored:
        signal.signal(one, signal.SIG_IGN)


@pytest.fixture(scope="session")
def native():
    """A fresh build of native/."""
    with open_directory("opensafe-native-") as out:
        subprocess.run(["make", "-s", "-C", ROOT / "native", f"OUT={out}", "all"], check=True)
        yield out


@pytest.fixture
def open_dir():
    with open_directory("opensafe-native-test-") as path:
        yield path


@pytest.fixture
def small_tmpfs(tmp_path):
    """A filesystem of 64 KiB."""
    path = tmp_path / "small"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "opensafe-test", path], check=True)
    yield path
    subprocess.run(["umount", path], check=True)


@pytest.fixture(params=["pids", "unified"])
def cgroup(request):
    """A cgroup of this test's own, in a v1 hierarchy and in the v2 one."""
    mount = pathlib.Path("/sys/fs/cgroup") / request.param
    if not (mount / "cgroup.procs").exists():
        mount = pathlib.Path("/sys/fs/cgroup")
        if request.param != "unified" or not (mount / "cgroup.procs").exists():
            pytest.skip(f"this host has no {request.param} hierarchy")
    path = mount / f"opensafe-native-test-{os.getpid()}"
    path.mkdir()
    yield path
    path.rmdir()
