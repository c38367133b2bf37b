"""Span exporter for hosts without a collector: OTLP/JSON lines, `traces.jsonl`, and one older file.

Bounded: when the file has grown to its cap it replaces the older one. One line is one `TracesData` message as the
OpenTelemetry protocol's file exporter specification has it, so a collector's otlpjsonfile receiver reads it.
"""

import pathlib
from collections.abc import Sequence

from google.protobuf.json_format import MessageToDict
from msgspec import json
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult


class FileSpanExporter(SpanExporter):
    """Writes to `path`; called from the span processor's thread only."""

    def __init__(self, path: pathlib.Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Append one line. A full disk costs traces, never a call."""
        line = json.encode(MessageToDict(encode_spans(spans))) + b"\n"
        try:
            if self._path.exists() and self._path.stat().st_size + len(line) > self._max_bytes:
                self._path.replace(self._path.with_suffix(".1.jsonl"))
            with self._path.open("ab") as file:
                file.write(line)
        except OSError:
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS
