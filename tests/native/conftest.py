import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def native():
    """A fresh build of native/, in a directory that every user can reach."""
    out = pathlib.Path(tempfile.mkdtemp(prefix="opensafe-native-"))
    out.chmod(0o755)
    subprocess.run(["make", "-s", "-C", ROOT / "native", f"OUT={out}", "all"], check=True)
    yield out
    shutil.rmtree(out)


@pytest.fixture
def open_dir():
    """A directory that every user can reach and root owns: pytest's own are closed to others."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="opensafe-native-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


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
