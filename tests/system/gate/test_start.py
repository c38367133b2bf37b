"""What makes the daemon refuse to start: a message that names it, exit status 78, nothing left behind."""

import asyncio
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from opensafe import errors
from tests.harness.daemon import PREFIX, ROOT, Daemon

REFUSES = 78


@pytest.fixture
def daemon():
    daemon = Daemon()
    yield daemon
    assert daemon.remove() == []


def up(daemon, pattern="", text=""):
    """Exit status and message of `opensafe up` on the daemon's settings, in which `pattern` became `text`."""
    daemon.settings.write_text(re.sub(pattern, text, daemon.settings.read_text(), count=1))
    daemon.settings.chmod(0o644)
    command = [sys.executable, "-m", "opensafe.cli", "up", "--config", daemon.settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


def test_a_missing_bundle(daemon):
    status, said = up(daemon, r"bundle = .*", 'bundle = "/nonexistent/bundle"')
    assert status == REFUSES
    assert "/nonexistent/bundle" in said
    assert "make bundle" in said


def test_CP_09_a_bundle_with_a_changed_byte(daemon, tmp_path):
    content = bytearray((ROOT / "build" / "policy.bundle.tar.gz").read_bytes())
    content[len(content) // 2] ^= 1
    bundle = tmp_path / "bundle"
    bundle.write_bytes(content)
    status, said = up(daemon, r"bundle = .*", f'bundle = "{bundle}"')
    assert status == REFUSES
    assert "refuses to start" in said


@pytest.mark.parametrize(
    ("version", "named"),
    [("release-20221219.0", "release-20221219.0"), ("VERSION_MISSING", "VERSION_MISSING"), ("", "no dated version")],
)
def test_a_runsc_that_is_too_old_or_does_not_say(daemon, tmp_path, version, named):
    runsc = tmp_path / "runsc"
    runsc.write_text(f"#!/bin/sh\necho runsc version {version}\n")
    runsc.chmod(0o755)
    status, said = up(daemon, r"runsc = .*", f'runsc = "{runsc}"')
    assert status == REFUSES
    assert named in said
    assert "make setup" in said


def test_a_runsc_that_is_not_there(daemon):
    status, said = up(daemon, r"runsc = .*", 'runsc = "/nonexistent/runsc"')
    assert status == REFUSES
    assert "/nonexistent/runsc" in said


def test_R66_an_image_that_is_not_there(daemon):
    status, said = up(daemon, r"images = .*", 'images = "/nonexistent/images"')
    assert status == REFUSES
    assert "/nonexistent/images" in said


def test_guest_binaries_that_are_not_there(daemon, tmp_path):
    (tmp_path / "guest").mkdir()
    (tmp_path / "launch").write_bytes((ROOT / "build/native/launch").read_bytes())
    (tmp_path / "launch").chmod(0o755)
    status, said = up(daemon, r"native = .*", f'native = "{tmp_path}"')
    assert status == REFUSES
    assert said


@pytest.mark.parametrize("spoil", ["index of root", "no directory"])
def test_a_front_that_can_not_use_its_directory(daemon, spoil):
    daemon.start()
    assert daemon.stop() == 0
    own = daemon.state / "front"
    if spoil == "index of root":
        for path in own.glob("index.sqlite*"):
            path.chmod(0o600)
            os.chown(path, 0, 0)
    else:
        shutil.rmtree(own / "cache")
        (own / "cache").write_bytes(b"")
    status, said = up(daemon)
    assert status == REFUSES
    assert "the front could not start" in said
    assert "the service user owns" in said


def test_a_state_directory_on_a_full_disk(daemon, tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", full], check=True)
    try:
        (full / "filler").write_bytes(bytes(64 << 10))
        status, said = up(daemon, r"state = .*", f'state = "{full}"')
    finally:
        subprocess.run(["umount", full], check=True)
    assert status == REFUSES
    assert "No space left" in said
    assert "Make room" in said
    assert "Traceback" not in said


def test_no_root(daemon):
    # Another user may be unable to walk into the checkout, so it gets the code as the daemon's children do: bound.
    source, venv = daemon.run / "code" / "source", daemon.run / "code" / "venv"
    for path in (source, venv):
        path.mkdir(parents=True)
    program = (
        f"import sys; sys.path.insert(0, {str(source)!r}); import pathlib, opensafe.daemon as daemon;"
        f"sys.exit(daemon.up(pathlib.Path({str(daemon.settings)!r})))"
    )
    done = subprocess.run(
        [
            *(ROOT / "build/native/launch", "--user", "65534:65534", "--drop-capabilities", "--no-new-privileges"),
            *("--bind", ROOT / "supervisor", source, "--bind", pathlib.Path(sys.prefix).resolve(), venv, "--"),
            *(venv / "bin" / "python", "-I", "-c", program),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == REFUSES, done.stderr
    assert "the warden needs root" in done.stderr


def test_a_setting_that_does_not_exist(daemon):
    status, said = up(daemon, r"\[caps\]", "[caps]\nsandboxen = 3")
    assert status == REFUSES
    assert "sandboxen" in said


@pytest.mark.parametrize("value", ["0", "-1", "9007199254740993", "9223372036854775808", '"8"', "true"])
def test_R34_a_cap_out_of_range(daemon, value):
    status, said = up(daemon, r"\[caps\]", f"[caps]\nsandboxes = {value}")
    assert status == REFUSES
    assert "caps" in said


def test_a_group_that_does_not_exist(daemon):
    status, said = up(daemon, r"\[principals.other\]", '[principals.other]\ngroup = "no-such-group"')
    assert status == REFUSES
    assert "no-such-group" in said


def test_R46_a_second_daemon_on_the_same_state(daemon):
    daemon.start()
    status, said = up(daemon)
    assert status == REFUSES
    assert "another daemon" in said
    assert daemon.process.poll() is None  # the first one lives
    assert daemon.stop() == 0


def test_a_changed_audit_log(daemon):
    daemon.start()
    assert daemon.stop() == 0
    segment = daemon.state / "audit" / "segment-000000.jsonl"
    subprocess.run(["chattr", "-a", segment], check=True)
    segment.write_bytes(segment.read_bytes().replace(b'"state":"started"', b'"state":"stARTED"'))
    status, said = up(daemon)
    assert status == REFUSES
    assert "not intact" in said


def test_the_control_the_same_settings_unchanged_serve(daemon):
    assert PREFIX.is_dir()
    daemon.start()
    assert daemon.stop() == 0


async def test_an_index_that_fits_no_log_is_built_again(daemon):
    daemon.start()
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
    assert daemon.stop() == 0
    # The log of another life, under the index of this one.
    for path in (*(daemon.state / "audit").iterdir(), daemon.state / "ledger.jsonl"):
        await asyncio.to_thread(subprocess.run, ["chattr", "-a", path], check=True)
        path.unlink()
    daemon.start()
    async with daemon.client() as agent:
        with pytest.raises(errors.NotFound):
            await agent.close_session(session)
        assert await agent.create_session("tester")
    assert daemon.stop() == 0
