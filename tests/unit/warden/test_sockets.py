"""The directories of the principals' sockets."""

import os

import pytest

from opensafe.config import PrincipalSettings
from opensafe.errors import HostUnsuitable
from opensafe.warden.network import sockets


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_each_principal_has_a_directory_of_its_group(tmp_path):
    sockets.prepare(tmp_path / "p", {"default": PrincipalSettings(group="daemon")}, 65534)
    made = (tmp_path / "p" / "default").stat()
    assert (made.st_uid, made.st_gid, made.st_mode & 0o7777) == (65534, 1, 0o2750)
    # Again, with another group: a changed setting takes effect.
    sockets.prepare(tmp_path / "p", {"default": PrincipalSettings(group="root")}, 65534)
    assert (tmp_path / "p" / "default").stat().st_gid == 0


def test_a_group_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(HostUnsuitable, match="principal default does not exist; got no-such-group"):
        sockets.prepare(tmp_path / "p", {"default": PrincipalSettings(group="no-such-group")}, 65534)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_metrics_socket_has_a_directory_of_its_group(tmp_path):
    sockets.prepare_one(tmp_path / "metrics", "root", 65534, "telemetry.metrics")
    status = (tmp_path / "metrics").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (65534, 0, 0o2750)
    with pytest.raises(HostUnsuitable, match=r"the group of telemetry\.metrics does not exist; got no-such-group"):
        sockets.prepare_one(tmp_path / "metrics", "no-such-group", 65534, "telemetry.metrics")
