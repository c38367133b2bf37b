"""Spans in a file read as a collector would read them: OTLP/JSON, not protobuf's."""

import json

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode

from opensafe.telemetry.files import FileSpanExporter, traces_data
from opensafe.telemetry.spans import Tracing

CARRIER = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}


@pytest.fixture
def spans():
    """A call's span with a child, and a session's, in the order of their ends."""
    memory = InMemorySpanExporter()
    tracing = Tracing(memory, "1")
    tracing.begin_session("ses-1", "agent", "conv", {})
    with tracing.tool("Exec", "ses-1", "0" * 31 + "1", "call-1", CARRIER) as span:
        with tracing.child("policy.evaluate", a__b="c") as child:
            child.set_attributes({"n": -5, "f": 1.5, "yes": True, "list": ["a", "b"]})
        span.add_event("seen", {"detail": "x"})
        span.set_status(Status(StatusCode.ERROR, "bad"))
    tracing.close()
    return memory.get_finished_spans()


def as_protobuf(attribute):
    ((kind, value),) = attribute["value"].items()
    if kind == "arrayValue":
        return [one["stringValue"] for one in value["values"]]
    return int(value) if kind == "intValue" else value


def test_every_span_says_what_its_protobuf_says(spans):
    (resource,) = traces_data(spans)["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    (wanted_resource,) = encode_spans(spans).resource_spans
    (wanted,) = wanted_resource.scope_spans
    assert (scope["scope"]["name"], scope["schemaUrl"]) == (wanted.scope.name, wanted.schema_url)
    assert [one["key"] for one in resource["resource"]["attributes"]] == [
        one.key for one in wanted_resource.resource.attributes
    ]
    assert len(scope["spans"]) == len(wanted.spans) == 3
    for one, other in zip(scope["spans"], wanted.spans, strict=True):
        assert one["traceId"] == other.trace_id.hex()
        assert one["spanId"] == other.span_id.hex()
        assert one.get("parentSpanId", "") == other.parent_span_id.hex()
        assert (one["name"], one["kind"]) == (other.name, other.kind)
        assert (one["flags"] & 1, one["flags"] & ~0xFF) == (1, other.flags)  # sampled, which the SDK leaves out
        assert int(one["startTimeUnixNano"]) == other.start_time_unix_nano
        assert int(one["endTimeUnixNano"]) == other.end_time_unix_nano
        assert (one["status"]["code"], one["status"].get("message", "")) == (other.status.code, other.status.message)
        assert [event["name"] for event in one.get("events", [])] == [event.name for event in other.events]
        assert [one["key"] for one in one["attributes"]] == [one.key for one in other.attributes]
    child = {one["key"]: as_protobuf(one) for one in scope["spans"][0]["attributes"]}
    assert child == {"a.b": "c", "n": -5, "f": 1.5, "yes": True, "list": ["a", "b"]}


def test_a_batch_is_a_line_and_the_older_file_makes_room(spans, tmp_path):
    path = tmp_path / "traces.jsonl"
    exporter = FileSpanExporter(path, 1)
    exporter.export(spans)
    exporter.export(spans[:1])
    counts = [
        len(json.loads(one.read_text())["resourceSpans"][0]["scopeSpans"][0]["spans"])
        for one in (path.with_suffix(".1.jsonl"), path)
    ]
    assert counts == [3, 1]


def test_no_spans_are_a_message_without_any():
    assert traces_data([]) == {"resourceSpans": []}
