"""What a guest tried and what it reached, as the record, the metrics and the trace tell it."""

import asyncio
import json
import subprocess
import sys

import pytest
import pytest_asyncio

from opensafe.proof.world.world import World
from opensafe.telemetry.reading import Files, Jaeger
from tests.harness import jaeger
from tests.harness import ocsf as schema
from tests.harness.way_out import Place, daemon_before

#: The world is read by a task of this loop.
pytestmark = pytest.mark.asyncio(loop_scope="module")

UPLINK = "10.203.232.0/30"
OTHER_UPLINK = "10.203.232.4/30"
SCAN = """
import socket
for port in {ports}:
    try: socket.create_connection(("198.51.100.10", port), timeout=5)
    except ConnectionRefusedError: pass
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("198.51.100.10", 123))
try: socket.getaddrinfo("den" + "ied.test", 80)
except socket.gaierror: pass
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world():
    async with World.open() as opened:
        yield opened


@pytest.fixture(scope="module")
def daemon(world, tmp_path_factory):
    with daemon_before(world, tmp_path_factory.mktemp("site"), UPLINK) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def place(daemon):
    async with Place.open(daemon) as opened:
        yield opened


def connections(daemon, **fields):
    """Records of connections that have these fields."""
    lines = [line for path in sorted((daemon.state / "audit").glob("segment-*")) for line in path.open()]
    records = [json.loads(line) for line in lines if '"kind":"connection"' in line]
    return [one for one in records if all(one[name] == value for name, value in fields.items())]


async def recorded(daemon, enough, **fields):
    """Such records, when there are enough of them."""
    async with asyncio.timeout(20):
        while not enough(found := connections(daemon, **fields)):  # noqa: ASYNC110 - the log tells nobody
            await asyncio.sleep(0.05)
    return found


async def visited(daemon, place):
    """A call that reads a page and scans, and goes on until both are on record: its end would cut what is open."""

    async def told():
        for layer, state in (("packet", "refused"), ("http", "ended"), ("dns", "refused")):
            await recorded(daemon, bool, layer=layer, state=state, sandbox_id=place.sandbox)

    await place.write("scan.py", SCAN.format(ports=[22]))
    done = await place.held("curl -sS http://allowed.test/hello; python3 scan.py", told)
    assert b"hello from the world" in done.stdout
    return done


async def test_a_refusal_at_the_first_packet_is_on_record_under_its_call(daemon, place):
    await place.write("scan.py", SCAN.format(ports=[22, 22, 22, 8443]))
    result = await place.run("python3 scan.py")
    assert result.outcome.exit_code == 0, result.stderr
    found = await recorded(
        daemon, lambda found: sum(one["count"] for one in found) == 5, layer="packet", sandbox_id=place.sandbox
    )
    assert {(one["protocol"], one["port"]) for one in found} == {("tcp", 22), ("tcp", 8443), ("udp", 123)}
    assert sum(one["count"] for one in found if one["port"] == 22) == 3
    told = found[0]
    assert (told["state"], told["address"], told["rules"]) == ("refused", "198.51.100.10", ["gateway.port.closed"])
    assert (told["principal"], told["session_id"], told["call_id"]) == ("agent", place.session, "call1")
    assert all(told[name] for name in ("exec_id", "decision_id", "trace_id"))


async def test_a_scan_of_many_ports_is_few_records_whose_counts_add_up(daemon, place):
    await place.write("scan.py", SCAN.format(ports="range(1000, 1150)"))
    await place.run("python3 scan.py")
    found = await recorded(
        daemon, lambda found: sum(one["count"] for one in found) == 151, layer="packet", sandbox_id=place.sandbox
    )
    assert len(found) < 100


async def test_the_export_has_what_was_tried_and_reached_as_events_of_the_published_schema(daemon, place):
    await visited(daemon, place)
    events = await exported(daemon, place.session)
    assert [fault for event in events for fault in schema.faults(event)] == []
    seen = {(one["class_uid"], one["activity_id"], one["unmapped"].get("layer")) for one in events}
    assert seen >= {(4001, 1, "http"), (4001, 2, "http"), (4001, 5, "packet"), (4003, 6, "dns")}
    assert {one["src_endpoint"]["uid"] for one in events if one["class_uid"] in (4001, 4003)} == {place.sandbox}
    closed = next(one for one in events if (one["class_uid"], one["activity_id"]) == (4001, 2))
    assert closed["dst_endpoint"]["hostname"] == "allowed.test"
    assert closed["traffic"]["bytes_in"] > 0
    assert closed["start_time"] + closed["duration"] == closed["end_time"]


async def test_a_calls_trace_shows_its_connections_below_its_run(daemon, place):
    done = await visited(daemon, place)
    # A span is written a few seconds after it ended, and the session's when that is closed.
    wanted = ("allowed.test:80", "198.51.100.10:22", "198.51.100.10:123", "denied.test")
    async with asyncio.timeout(30):
        shown = ""
        while not all(one in shown for one in wanted):
            shown = await trace(daemon, done.verdict.trace_id)
    lines = [line.split() for line in shown.splitlines()]
    depth = {line.split()[0]: len(line) - len(line.lstrip()) for line in shown.splitlines() if line}
    assert depth["egress.connect"] == depth["egress.refuse"] == depth["sandbox.exec"] + 2
    connect = next(line for line in lines if line[0] == "egress.connect")
    assert connect[3:6] == ["allowed.test:80", "http", "ended"]
    assert set(wanted[1:]) <= {line[3] for line in lines if line[0] == "egress.refuse"}
    spans = {
        span.name: span
        for span in Files([daemon.state / "front/traces.jsonl"]).trace(done.verdict.trace_id)
        if span.text("server.address") in ("allowed.test", "198.51.100.10")
    }
    assert spans["egress.connect"].duration_ns > 0
    assert int(spans["egress.connect"].text("opensafe.egress.received_bytes")) > 0
    assert (spans["egress.connect"].failed, spans["egress.refuse"].failed) == (False, True)


async def test_jaeger_has_them_below_the_run_too(world, tmp_path):
    with jaeger.running() as collector:
        telemetry = f'otlp_endpoint = "{collector.otlp}"'
        with daemon_before(world, tmp_path, OTHER_UPLINK, telemetry=telemetry) as daemon:
            async with Place.open(daemon) as place:
                done = await visited(daemon, place)
        spans = Jaeger(collector.query).trace(done.verdict.trace_id)
    names = {span.span_id: span.name for span in spans}
    below = {(names.get(span.parent_id), span.name) for span in spans if span.name.startswith("egress.")}
    assert below == {("sandbox.exec", "egress.connect"), ("sandbox.exec", "egress.refuse")}


async def test_the_metrics_count_what_was_refused_at_the_first_packet(daemon, place):
    await place.write("scan.py", SCAN.format(ports=[22, 23]))
    await place.run("python3 scan.py")
    await recorded(
        daemon, lambda found: sum(one["count"] for one in found) == 3, layer="packet", sandbox_id=place.sandbox
    )
    everything = sum(one["count"] for one in connections(daemon, layer="packet"))
    reader, writer = await asyncio.open_unix_connection(daemon.run / "metrics/metrics.sock")
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: opensafe\r\n\r\n")
    answer = (await reader.read()).decode()
    writer.close()
    assert f'opensafe_egress_total{{action="refused",layer="packet"}} {everything}' in answer.replace(".0\n", "\n")


async def trace(daemon, trace_id):
    """A trace as the command line shows it, "" where it is not written yet."""
    command = (sys.executable, "-m", "opensafe.cli", "trace", "show", trace_id, "--state", str(daemon.state))
    return (await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)).stdout


async def exported(daemon, session):
    """A session's records as OCSF events."""
    command = (sys.executable, "-m", "opensafe.cli", "audit", "export", "--format", "ocsf")
    done = await asyncio.to_thread(
        subprocess.run,
        [*command, "--state", str(daemon.state), "--session", session],
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]
