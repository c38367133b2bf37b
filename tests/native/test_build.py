"""The C code's own tests, and what its binaries must be made of."""

import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUEST = ("guest/init", "guest/run", "guest/file", "guest/probe", "proof/sweep")


@pytest.mark.parametrize("target", ["test", "sanitize"])
def test_unit_tests_pass(tmp_path, target):
    done = subprocess.run(
        ["make", "-s", "-C", ROOT / "native", f"OUT={tmp_path}", target], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "20 unit tests, 0 failed checks" in done.stdout


@pytest.mark.parametrize("name", GUEST)
def test_guest_programs_need_no_loader_and_map_no_writable_code(native, name):
    headers = subprocess.run(
        ["readelf", "--wide", "--program-headers", native / name], capture_output=True, text=True, check=True
    ).stdout
    loads = [line for line in headers.splitlines() if line.strip().startswith("LOAD")]
    assert loads
    assert not any("RWE" in line for line in loads)
    assert "INTERP" not in headers
    assert "DYNAMIC" not in headers


@pytest.mark.parametrize("name", GUEST)
def test_guest_programs_stay_small(native, name):
    most = 32768 if name == "guest/file" else 16384  # it has ten verbs, of which a call pages in one
    assert (native / name).stat().st_size < most


def test_launch_needs_no_loader(native):
    headers = subprocess.run(
        ["readelf", "--wide", "--program-headers", native / "launch"], capture_output=True, text=True, check=True
    ).stdout
    assert "INTERP" not in headers


def test_launch_under_the_sanitizers_refuses_and_starts_as_the_real_one(tmp_path):
    subprocess.run(
        ["make", "-s", "-C", ROOT / "native", f"OUT={tmp_path}", "sanitize"], check=True, capture_output=True
    )
    launch = tmp_path / "sanitized" / "launch"
    assert subprocess.run([launch, "--bogus", "--", "/bin/true"], capture_output=True).returncode == 125
    words = [launch, "--keep-fd", "1"]
    assert subprocess.run([*words, "--", "/bin/true"], capture_output=True).returncode == 125
    options = ["--new-session", "--no-new-privileges", "--rlimit", "NOFILE=64", "--die-with-parent"]
    started = subprocess.run([launch, *options, "--", "/bin/sh", "-c", "exit 9"], capture_output=True, text=True)
    assert (started.returncode, started.stderr) == (9, "")
