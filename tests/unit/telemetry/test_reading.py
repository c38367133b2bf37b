"""Traces read back from our own files and from a query API's answers, well formed or not."""

import concurrent.futures
import contextlib
import http.server
import json
import socket
import threading

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from opensafe.errors import InvalidArgument, NotFound, Unavailable
from opensafe.telemetry.files import FileSpanExporter, traces_data
from opensafe.telemetry.reading import Files, Jaeger
from opensafe.telemetry.spans import Tracing

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def spans():
    memory = InMemorySpanExporter()
    tracing = Tracing(memory, "1")
    with tracing.tool("Bash", "ses-1", TRACE, "call-1", {}), tracing.child("policy.evaluate") as child:
        child.set_attributes({"rules": ["a", "b"], "n": -5, "f": 1.5, "yes": False, "text": "[1]"})
    with tracing.tool("Bash", "ses-2", "1" * 32, "call-2", {}):
        pass
    tracing.close()
    return memory.get_finished_spans()


def test_what_the_exporter_writes_is_read_back(spans, tmp_path):
    path = tmp_path / "traces.jsonl"
    FileSpanExporter(path, 1 << 20).export(spans)
    tool, child = Files([path]).trace(TRACE.upper())
    assert (tool.name, tool.service, tool.text("gen_ai.tool.call.id")) == ("execute_tool Bash", "opensafe", "call-1")
    assert (child.parent_id, child.name) == (tool.span_id, "policy.evaluate")
    assert child.attributes == {"rules": ("a", "b"), "n": -5, "f": 1.5, "yes": False, "text": "[1]"}
    assert child.texts("rules") == ("a", "b")
    assert child.texts("text") == child.texts("n") == child.texts("none") == ()
    assert (child.start_ns, child.duration_ns) == (spans[0].start_time, spans[0].end_time - spans[0].start_time)


def test_the_older_file_is_read_as_well_and_a_span_in_both_counts_once(spans, tmp_path):
    path = tmp_path / "traces.jsonl"
    exporter = FileSpanExporter(path, 1)
    exporter.export(spans)
    exporter.export(spans[:1])
    assert len(Files([path]).trace(TRACE)) == 2


@pytest.mark.parametrize(
    "line",
    [
        '{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%s"',
        '{"resourceSpans":"%s"}',
        '{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%s"}]}]}]}',
        '"%s"',
        "\x00%s\xff",
        '{"x":' + "[" * 100_000 + '"%s"',
    ],
)
def test_a_line_that_is_no_batch_of_spans_counts_as_not_written(spans, tmp_path, line):
    path = tmp_path / "traces.jsonl"
    FileSpanExporter(path, 1 << 20).export(spans)
    with path.open("ab") as file:
        file.write((line.replace("%s", TRACE)).encode("latin-1") + b"\n")
    assert len(Files([path]).trace(TRACE)) == 2


def test_numbers_that_are_none_are_nought(spans, tmp_path):
    data = traces_data(spans[:1])
    (span,) = data["resourceSpans"][0]["scopeSpans"][0]["spans"]
    span |= {"startTimeUnixNano": "9" * 5000, "endTimeUnixNano": "-1e9"}
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps(data))
    (read,) = Files([path]).trace(TRACE)
    assert (read.start_ns, read.end_ns, read.duration_ns) == (0, 0, 0)


@pytest.mark.parametrize("trace_id", ["", "x", "0" * 31, "../../etc/passwd", f"{TRACE}?x", f"{TRACE}\n"])
def test_an_id_that_is_none_is_refused_before_anything_is_asked(trace_id, tmp_path):
    with pytest.raises(InvalidArgument):
        Files([tmp_path / "none"]).trace(trace_id)
    with pytest.raises(InvalidArgument):
        Jaeger("http://127.0.0.1:1").trace(trace_id)


def test_an_unknown_trace_and_a_missing_file_are_told_apart(spans, tmp_path):
    path = tmp_path / "traces.jsonl"
    with pytest.raises(InvalidArgument, match="No such file"):
        Files([path]).trace(TRACE)
    FileSpanExporter(path, 1 << 20).export(spans)
    with pytest.raises(NotFound):
        Files([path]).trace("2" * 32)


@contextlib.contextmanager
def answering(status, body):
    """A query API that gives this answer to everything, and its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_an_answer_in_several_parts_is_one_trace(spans):
    parts = [json.dumps({"result": traces_data([span])}) for span in spans]
    with answering(200, "\n".join(parts).encode()) as url:
        assert [span.name for span in Jaeger(f"{url}/").trace(TRACE)] == ["execute_tool Bash", "policy.evaluate"]


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (404, b"", NotFound),
        (200, b'{"result":{}}', NotFound),
        (500, b"", Unavailable),
        (200, b"<html>", Unavailable),
        (200, b'{"result":' + b"[" * 100_000, Unavailable),
    ],
)
def test_an_answer_without_a_trace_is_an_error(status, body, error):
    with answering(status, body) as url, pytest.raises(error):
        Jaeger(url).trace(TRACE)


@pytest.mark.parametrize("url", ["file:///etc", "localhost:16686", "ftp://host"])
def test_a_query_api_has_an_http_address(url):
    with pytest.raises(InvalidArgument):
        Jaeger(url)


def test_nobody_there_is_unavailable():
    with pytest.raises(Unavailable):
        Jaeger("http://127.0.0.1:1").trace(TRACE)


@pytest.mark.parametrize(
    "answer",
    [
        b"no HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a" * 70_000,
    ],
    ids=["none", "chunked", "endless"],
)
def test_an_answer_that_is_no_http_is_unavailable(answer):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            served = pool.submit(serve)
            with pytest.raises(Unavailable, match="can't be reached"):
                Jaeger(f"http://127.0.0.1:{port}").trace("a" * 32)
            assert served.exception() is None


@pytest.mark.parametrize("url", ["http://[", "http://a b", "http://127.0.0.1:x"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises((InvalidArgument, Unavailable)):
        Jaeger(url).trace("a" * 32)
