"""What a real daemon tells Prometheus, and who may ask."""

import contextlib
import http.client
import os
import pathlib
import re
import socket
import stat

import pytest
from prometheus_client.parser import text_string_to_metric_families

from opensafe.telemetry import metrics
from tests.harness.daemon import ROOT, running, signal_process
from tests.system.exec.support import eventually

pytestmark = [pytest.mark.root, pytest.mark.runsc]

NAME = re.compile(r"\b(?:opensafe|gen_ai|rpc|process)_[a-z0-9_]+")
SUFFIX = re.compile(r"_(?:bucket|count|sum)$")


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("opensafe")
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.fspath(self._path))


def scrape(connection):
    """All samples by name and labels, and the families."""
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Content-Type"]) == (200, metrics.CONTENT_TYPE)
    families = list(text_string_to_metric_families(answer.read().decode()))
    connection.close()
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value for family in families for sample in family.samples
    }
    return samples, families


@pytest.fixture
def told(daemon):
    """Asks the daemon: its samples."""
    return lambda: scrape(UnixConnection(daemon.run / "metrics" / "metrics.sock"))[0]


async def grown_to(told, wanted):
    """Scrape until all of that is told: a call's span and stream end after its client has heard the outcome."""

    async def ask():
        return told()

    return await eventually(ask, lambda samples: all(samples.get(key, 0) >= value for key, value in wanted.items()))


async def test_calls_and_verdicts_are_told(told, agent, session, sandbox):
    before = told()
    await agent.run_call(session, sandbox, "good", "Bash", {"command": "echo hi"})
    await agent.run_call(session, sandbox, "bad", "Bash", {"command": "cat /etc/shadow"})

    def grown(by, name, **labels):
        key = (name, *sorted(labels.items()))
        return {key: before.get(key, 0) + by}

    tool = {"gen_ai_tool_name": "Bash"}
    rpc = {"rpc_system_name": "grpc", "rpc_method": "opensafe.v1.ExecService/Exec", "rpc_response_status_code": "OK"}
    wanted = (
        grown(1, "opensafe_calls_ended_total", outcome="exited")
        | grown(1, "opensafe_calls_ended_total", outcome="blocked")
        | grown(1, "gen_ai_execute_tool_duration_seconds_count", error_type="", **tool)
        | grown(1, "gen_ai_execute_tool_duration_seconds_count", error_type="policy_denied", **tool)
        | grown(2, "rpc_server_call_duration_seconds_count", **rpc)
        | grown(2, "opensafe_audit_records_total", kind="decision")
        | grown(2, "opensafe_policy_evaluation_duration_seconds_count", entrypoint="gate/bash")
        | grown(1, "opensafe_monitor_executions_total")
    )
    after = await grown_to(told, wanted)
    for key in wanted.keys() - {("opensafe_monitor_executions_total",)}:
        assert after[key] == wanted[key], key
    assert after[("opensafe_sandboxes", ("state", "running"))] == 1
    assert after[("opensafe_sandboxes_on_host",)] == 1
    assert after[("opensafe_warden_up",)] == after[("opensafe_policy_bundle_in_force",)] == 1
    assert after[("opensafe_sandbox_start_duration_seconds_count", ("warm", "false"))] >= 1


async def test_no_label_is_an_id_or_what_a_client_chose(daemon, told, agent, session, sandbox):
    await agent.run_call(session, sandbox, "call-of-mine", "Bash", {"command": "echo hi"})
    text = repr(told())
    assert "ExecService/Exec" in text
    for word in (session, sandbox, "call-of-mine", "tester", os.fspath(daemon.run), "echo"):
        assert word not in text


def test_the_socket_is_for_its_group(daemon):
    directory = daemon.run / "metrics"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o2750
    assert stat.S_IMODE((directory / "metrics.sock").stat().st_mode) == 0o660
    assert directory.stat().st_gid == (directory / "metrics.sock").stat().st_gid == 0


def test_every_metric_of_the_table_is_there_and_no_other(daemon):
    _, families = scrape(UnixConnection(daemon.run / "metrics" / "metrics.sock"))
    of_counters = {family.name + "_total" * (family.type == "counter") for family in families}
    ours = {name for name in of_counters if not name.startswith("process_")}
    assert ours == {family.name for family in metrics.FAMILIES}


@pytest.mark.parametrize("path", ["deploy/prometheus/opensafe.rules.yml", "deploy/grafana/opensafe.json"])
def test_rules_and_dashboard_ask_for_nothing_that_a_daemon_does_not_tell(daemon, path):
    _, families = scrape(UnixConnection(daemon.run / "metrics" / "metrics.sock"))
    told = {family.name + "_total" * (family.type == "counter") for family in families}
    asked = {SUFFIX.sub("", name) for name in NAME.findall((ROOT / path).read_text())}
    assert asked
    assert asked - told - {label for family in metrics.FAMILIES for label in family.labels} == set()


async def test_a_front_that_was_killed_is_told_of_by_the_next_from_0_on(own_daemon):
    daemon = own_daemon()
    path = daemon.run / "metrics" / "metrics.sock"
    before = scrape(UnixConnection(path))[0]
    front = daemon.child("front")
    async with daemon.client() as agent:
        await agent.create_session("tester")
    assert scrape(UnixConnection(path))[0][("opensafe_audit_records_total", ("kind", "session"))] == 1
    signal_process(front)

    async def ask():
        with contextlib.suppress(OSError):
            return scrape(UnixConnection(path))[0]

    after = await eventually(ask, bool)
    assert after[("process_start_time_seconds",)] > before[("process_start_time_seconds",)]
    assert after[("opensafe_audit_log_records",)] > before[("opensafe_audit_log_records",)]
    assert after.get(("opensafe_audit_records_total", ("kind", "session")), 0) == 0


def test_loopback_where_the_configuration_says_so():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with running(telemetry=f'metrics = "127.0.0.1:{port}"') as daemon:
        assert ("opensafe_warden_up",) in scrape(http.client.HTTPConnection("127.0.0.1", port))[0]
        assert has_tcp(daemon.child("front"))
        assert not (daemon.run / "metrics").exists()


def test_no_server_where_the_configuration_says_so():
    with running(telemetry='metrics = ""') as daemon:
        assert not (daemon.run / "metrics").exists()
        assert not has_tcp(daemon.child("front"))


def has_tcp(pid):
    """Whether a process has a TCP socket."""
    process = pathlib.Path(f"/proc/{pid}")
    inodes = {os.readlink(link) for link in (process / "fd").iterdir()}
    lines = [line for name in ("tcp", "tcp6") for line in (process / "net" / name).read_text().splitlines()[1:]]
    return any(f"socket:[{line.split()[9]}]" in inodes for line in lines)
