"""The daemon that benchmarks, demo and tests have for themselves: it says why it fails, and leaves nothing."""

import pathlib

import pytest

from opensafe.client import Client
from opensafe.proof import private
from opensafe.proof.private import DaemonFailedError, PrivateDaemon

pytestmark = [pytest.mark.root, pytest.mark.runsc]


def alive(pid):
    return pathlib.Path(f"/proc/{pid}").exists()


async def test_the_body_runs_on_a_daemon_that_serves_and_nothing_is_left():
    with PrivateDaemon("test", {"someone": ("developer",)}) as daemon:
        async with Client.connect(daemon.socket_of("someone")) as client:
            assert (await client.status()).sandboxes == 0
        pids = {daemon.pid, daemon.child("front"), daemon.child("helper")}
        assert len(pids) == 3
    assert not daemon.run.exists()
    assert not daemon.state.exists()
    assert not any(alive(pid) for pid in pids)
    assert any("stopped" in line for line in daemon.log_tail())


def test_one_that_refuses_to_start_says_why_and_leaves_nothing():
    daemon = PrivateDaemon("test", {"someone": ("developer",)}, more="[nonsense]")
    with pytest.raises(DaemonFailedError, match="nonsense"), daemon:
        pytest.fail("the body ran")
    assert not daemon.run.exists()
    assert not daemon.state.exists()


def test_one_that_does_not_get_ready_is_stopped(monkeypatch):
    monkeypatch.setattr(private, "_START_S", 0.01)
    daemon = PrivateDaemon("test", {"someone": ("developer",)})
    with pytest.raises(DaemonFailedError, match="was not ready"):
        daemon.start()
    assert not alive(daemon.pid)
    daemon.remove()
    assert not daemon.run.exists()


def test_one_that_dies_meanwhile_is_a_failure():
    daemon = PrivateDaemon("test", {"someone": ("developer",)})
    with pytest.raises(DaemonFailedError, match="stopped with -9"), daemon:
        daemon.kill()
    assert not daemon.run.exists()


def test_a_failure_of_the_body_is_what_its_caller_sees():
    def fail():
        daemon.kill()
        raise ValueError("mine")

    daemon = PrivateDaemon("test", {"someone": ("developer",)})
    with pytest.raises(ValueError, match="mine"), daemon:
        fail()
    assert not daemon.run.exists()
