"""The metrics' HTTP server: one answer, and nothing that a peer can make grow."""

import asyncio
import contextlib
import os
import pathlib
import stat
import types

import pytest
from prometheus_client.parser import text_string_to_metric_families

from opensafe.errors import StartError
from opensafe.telemetry import metrics
from opensafe.telemetry.meters import Meters
from opensafe.telemetry.scrape import Endpoint, bind

NOW = metrics.Standing(
    version="1",
    revision="r1",
    bundle_number=3,
    bundle_us=5_000_000,
    bundle_in_force=True,
    reviews=0,
    oldest_review_s=0,
    sandboxes={"running": 2},
    calls=1,
    limits={"calls": 5},
    audit_records=7,
    audit_failed=False,
    spans_dropped={"queue": 0, "export": 0},
    root=None,
)


async def ask(path, request):
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.split(b"\r\n")[0], body


@pytest.fixture
async def served(tmp_path):
    """Serves how often it was asked; the body can be held up."""
    state = types.SimpleNamespace(asked=0, begun=asyncio.Event(), go_on=asyncio.Event(), path=tmp_path / "metrics.sock")
    state.go_on.set()

    async def text():
        state.asked += 1
        state.begun.set()
        await state.go_on.wait()
        if state.asked < 0:
            raise RuntimeError
        return b"x" * state.asked

    endpoint = Endpoint(bind("unix", tmp_path), text, "text/plain")
    await endpoint.start()
    state.close = endpoint.close
    yield state
    await endpoint.close()


async def test_the_path_of_metrics_is_answered(served):
    assert await ask(served.path, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") == (b"HTTP/1.1 200 OK", b"x")
    assert await ask(served.path, b"GET /metrics?x=1 HTTP/1.0\r\n\r\n") == (b"HTTP/1.1 200 OK", b"xx")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /metrics/../x HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x00 \x00 \x00\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 9000 + b"\r\n\r\n", b"431"),
    ],
)
async def test_anything_else_is_refused(served, request_, status):
    line, _ = await ask(served.path, request_)
    assert line.split(b" ")[1] == status
    assert served.asked == 0


async def test_a_failure_is_told_to_who_asked_and_the_next_is_answered(served):
    served.asked = -2
    line, _ = await ask(served.path, b"GET /metrics HTTP/1.1\r\n\r\n")
    assert line == b"HTTP/1.1 500 Internal Server Error"
    served.asked = 0
    assert (await ask(served.path, b"GET /metrics HTTP/1.1\r\n\r\n"))[1] == b"x"


async def test_one_is_answered_at_a_time_and_the_seventeenth_is_cut(served):
    served.go_on.clear()
    waiting = [asyncio.create_task(ask(served.path, b"GET /metrics HTTP/1.1\r\n\r\n")) for _ in range(16)]
    await served.begun.wait()
    reader, writer = await asyncio.open_unix_connection(served.path)
    assert await reader.read() == b""
    writer.close()
    assert served.asked == 1
    served.go_on.set()
    answers = await asyncio.gather(*waiting)
    assert sorted(len(body) for _, body in answers) == list(range(1, 17))


async def test_silent_peers_hold_up_nobody_and_are_cut_by_close(served):
    silent = [await asyncio.open_unix_connection(served.path) for _ in range(15)]
    assert (await ask(served.path, b"GET /metrics HTTP/1.1\r\n\r\n"))[1] == b"x"
    await served.close()
    for reader, writer in silent:
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


async def test_close_cuts_what_is_under_way(tmp_path):
    begun = asyncio.Event()

    async def text():
        begun.set()
        await asyncio.Event().wait()

    endpoint = Endpoint(bind("unix", tmp_path), text, "text/plain")
    await endpoint.start()
    reader, writer = await asyncio.open_unix_connection(tmp_path / "metrics.sock")
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    await begun.wait()
    await endpoint.close()
    assert await reader.read() == b""
    writer.close()


def test_the_socket_is_for_its_group_and_replaces_one_that_was_left(tmp_path):
    bind("unix", tmp_path).close()
    listener = bind("unix", tmp_path)
    assert stat.S_IMODE((tmp_path / "metrics.sock").stat().st_mode) == 0o660
    listener.close()


@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]"])
def test_loopback_is_bound_and_a_port_in_use_is_named(address):
    taken = bind(f"{address}:0", pathlib.Path(os.devnull))
    taken.listen()
    port = taken.getsockname()[1]
    with pytest.raises(StartError, match=f"Address already in use; got .*:{port}"):
        bind(f"{address}:{port}", pathlib.Path(os.devnull))
    taken.close()


def test_a_path_that_is_too_long_is_named(tmp_path):
    with pytest.raises(StartError, match="too long"):
        bind("unix", tmp_path / ("x" * 120))


async def test_the_text_reads_as_prometheus_reads_it():
    meters = Meters()
    meters.request("opensafe.v1.ExecService/Exec", "OK", 0.02)
    meters.request("opensafe.v1.ExecService/Exec", "OK", 99)
    text = (await metrics.exposition(meters, NOW)).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    buckets = [
        (sample.labels["le"], sample.value)
        for sample in families["rpc_server_call_duration_seconds"].samples
        if sample.name.endswith("_bucket")
    ]
    assert buckets[:3] == [("0.005", 0), ("0.01", 0), ("0.025", 1)]
    assert buckets[-1] == ("+Inf", 2)
    assert families["opensafe_warden_up"].samples[0].value == 0
    assert families["opensafe_sandboxes_on_host"].samples == [], "unknown is not 0"
    assert families["opensafe_policy_bundle_info"].samples[0].labels == {"revision": "r1", "number": "3"}
    assert families["process_open_fds"].samples[0].value > 0


async def test_every_metric_of_the_table_is_told():
    text = (await metrics.exposition(Meters(), NOW)).decode()
    for family in metrics.FAMILIES:
        assert f"# HELP {family.name} {family.text}\n" in text


def test_names_and_labels_are_of_the_convention():
    for family in metrics.FAMILIES:
        assert family.name.endswith("_total") == isinstance(family, metrics.Counter)
        assert family.name.endswith("_seconds") or not isinstance(family, metrics.Histogram)
        assert not {"id", "path", "url", "host"} & {part for label in family.labels for part in label.split("_")}
    assert len({family.name for family in metrics.FAMILIES}) == len(metrics.FAMILIES)
