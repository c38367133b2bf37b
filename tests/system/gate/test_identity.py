"""Who the processes are: the front can do nothing but what its descriptors allow. CP-01, CP-07."""

import os
import pathlib
import stat
import subprocess

import pytest

CODE = """
import os, sys
try:
    path = sys.argv[1]
    if path.endswith(".sock"):
        import socket
        socket.socket(socket.AF_UNIX).connect(path)
    else:
        os.listdir(path) if os.path.isdir(path) else open(path).read()
except PermissionError:
    sys.exit(13)
"""


def status(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


@pytest.mark.parametrize("role", ["front", "helper"])
def test_the_children_have_no_root_no_capability_and_no_new_privileges(daemon, role):
    fields = status(daemon.child(role))
    assert all(int(uid) > 0 for uid in fields["Uid"].split() + fields["Gid"].split())
    assert fields["Groups"].split() == []
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(fields[name], 16) == 0, name
    assert fields["NoNewPrivs"].strip() == "1"


def test_the_warden_is_the_control(daemon):
    fields = status(daemon.process.pid)
    assert fields["Uid"].split()[0] == "0"
    assert int(fields["CapEff"], 16) != 0


@pytest.mark.parametrize("role", ["front", "helper"])
def test_R50_the_children_hold_no_descriptor_that_was_not_given(daemon, role):
    pid = daemon.child(role)
    held = {os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")}
    foreign = [name for name in held if name.startswith("/") and not _own(name, daemon)]
    assert foreign == []


def _own(name, daemon):
    allowed = (str(daemon.state / "front"), str(daemon.state / "audit"), "/dev/null", str(daemon.log))
    return name.startswith(allowed) or name.startswith(str(daemon.run / "code"))


def test_the_front_holds_the_log_for_appending_only(daemon):
    pid = daemon.child("front")
    for entry in os.scandir(f"/proc/{pid}/fd"):
        if os.readlink(entry.path).endswith("segment-000000.jsonl"):
            flags = pathlib.Path(f"/proc/{pid}/fdinfo/{entry.name}").read_text().split("flags:\t")[1].split()[0]
            assert int(flags, 8) & os.O_ACCMODE == os.O_WRONLY
            assert int(flags, 8) & os.O_APPEND
            return
    raise AssertionError("the front does not hold the log")


def as_user(path, user="nobody"):
    """Exit status of an attempt to use `path` as another user: 0 or 13."""
    return subprocess.run(
        ["/usr/bin/python3", "-c", CODE, path], user=user, group="nogroup", extra_groups=[]
    ).returncode


def test_B51_another_user_reaches_no_socket_and_no_state(daemon):
    for path in (
        daemon.run / "principals" / "agent" / "opensafe.sock",
        daemon.state / "audit",
        daemon.state / "ledger.jsonl",
        daemon.state / "front",
        daemon.run / "runsc",
    ):
        assert as_user(path) == 13, path
    assert as_user(daemon.state) == 0  # the control: what may be seen is seen


def test_the_service_user_reads_no_ledger_and_changes_no_log(daemon):
    assert as_user(daemon.state / "ledger.jsonl", "opensafe") == 13
    segment = daemon.state / "audit" / "segment-000000.jsonl"
    assert stat.S_IMODE(segment.stat().st_mode) == 0o640
    assert segment.stat().st_uid == 0


def test_sockets_carry_their_principals_group_from_the_start(daemon):
    for name in ("agent", "other", "reviewer"):
        directory = daemon.run / "principals" / name
        assert stat.S_IMODE(directory.stat().st_mode) == 0o2750
        assert stat.S_IMODE((directory / "opensafe.sock").stat().st_mode) == 0o660
