"""Span exporter for hosts without a collector: OTLP/JSON lines, `traces.jsonl`, and one older file.

Bounded: when the file has grown to its cap it replaces the older one. One line is one `TracesData` message as the
OpenTelemetry protocol's file exporter specification has it, so a collector's otlpjsonfile receiver reads it.

The message is built here and not by protobuf's JSON format, which spells ids and kinds otherwise than OTLP, and takes
the interpreter from the calls under way for six times as long.
"""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import json
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import format_span_id, format_trace_id

#: SpanFlags of trace.proto: whether the parent is remote is known, and that it is.
_KNOWN: Final = 0x100
_REMOTE: Final = 0x200


class FileSpanExporter(SpanExporter):
    """Writes to `path`; called from the span processor's thread only."""

    def __init__(self, path: pathlib.Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Append one line. A full disk costs traces, never a call."""
        line = json.encode(traces_data(spans)) + b"\n"
        try:
            if self._path.exists() and self._path.stat().st_size + len(line) > self._max_bytes:
                self._path.replace(self._path.with_suffix(".1.jsonl"))
            with self._path.open("ab") as file:
                file.write(line)
        except OSError:
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS


def traces_data(spans: Sequence[ReadableSpan]) -> dict[str, Any]:
    """The message in OTLP's JSON encoding: ids in hexadecimal, enumerations as numbers, 64-bit integers as text.

    All spans are of one tracer, as ours are.
    """
    if not spans:
        return {"resourceSpans": []}
    scope = spans[0].instrumentation_scope
    of_scope: dict[str, Any] = {"spans": [_span(span) for span in spans]}
    if scope is not None:
        of_scope["scope"] = {"name": scope.name, "version": scope.version or ""}
        of_scope["schemaUrl"] = scope.schema_url or ""
    resource = {"attributes": _attributes(spans[0].resource.attributes)}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [of_scope]}]}


def _span(span: ReadableSpan) -> dict[str, Any]:
    context, parent = span.get_span_context(), span.parent
    assert context is not None  # noqa: S101 - the SDK's own spans have one
    flags = int(context.trace_flags) | _KNOWN
    made: dict[str, Any] = {
        "traceId": format_trace_id(context.trace_id),
        "spanId": format_span_id(context.span_id),
        "name": span.name,
        "kind": span.kind.value + 1,  # the SDK counts from 0, and OTLP from 1
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": _attributes(span.attributes),
    }
    if parent is not None:
        made["parentSpanId"] = format_span_id(parent.span_id)
        if parent.is_remote:
            flags |= _REMOTE
    if span.events:
        made["events"] = [_event(event) for event in span.events]
    status = {"code": span.status.status_code.value}
    made["status"] = status | {"message": span.status.description} if span.status.description else status
    return made | {"flags": flags}


def _event(event: Event) -> dict[str, Any]:
    return {"timeUnixNano": str(event.timestamp), "name": event.name, "attributes": _attributes(event.attributes)}


def _attributes(attributes: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in (attributes or {}).items()]


def _value(value: Any) -> dict[str, Any]:  # noqa: ANN401 - what the SDK has let through
    match value:
        case str():
            return {"stringValue": value}
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
    return {"arrayValue": {"values": [_value(one) for one in value]}}
