"""What becomes of a span that ended: it is counted, and exported where it was sampled.

A client that samples its trace out is not exported, and counts all the same: metrics that leave out what a client
chooses would be of no use to whoever watches it. What the SDK drops without a word, because the queue is full or the
exporter fails, is counted too.
"""

from collections.abc import Sequence
from typing import Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Decision, ParentBased, StaticSampler
from opentelemetry.trace import TraceFlags

from .meters import Meters

#: Spans that wait for the exporter.
_QUEUE: Final = 2048

_SAMPLED: Final = TraceFlags.SAMPLED
_UNSAMPLED: Final = StaticSampler(Decision.RECORD_ONLY)
#: Follows the client's own decision on what is exported.
SAMPLER: Final = ParentBased(ALWAYS_ON, remote_parent_not_sampled=_UNSAMPLED, local_parent_not_sampled=_UNSAMPLED)
#: Spans have ids and are counted, and nothing is exported.
COUNTED: Final = _UNSAMPLED
#: Spans have ids and nothing else.
NONE: Final = ALWAYS_OFF


class Processor(BatchSpanProcessor):
    """Owns the exporter's thread. `dropped` tells how many spans were, by reason: queue, export."""

    def __init__(self, exporter: SpanExporter, meters: Meters) -> None:
        self._exporter = _Exporter(exporter)
        super().__init__(self._exporter, max_queue_size=_QUEUE)
        self._meters = meters
        self._sampled = 0
        self._overflow = 0

    def on_end(self, span: ReadableSpan) -> None:
        """See SpanProcessor. Only the event loop ends spans."""
        count = self._meters.of_span(span.name)
        if count is not None and span.start_time is not None and span.end_time is not None:
            count(span.attributes or {}, (span.end_time - span.start_time) * 1e-9)
        context = span.context
        if context is not None and context.trace_flags & _SAMPLED:
            # Each of the three numbers has one thread that writes it.
            if self._sampled - self._overflow - self._exporter.taken >= _QUEUE:
                self._overflow += 1
            self._sampled += 1
            super().on_end(span)

    @property
    def dropped(self) -> dict[str, int]:
        """Spans that nobody will see, by reason."""
        return {"queue": self._overflow, "export": self._exporter.failed}


class _Exporter(SpanExporter):
    """The exporter, and how many spans it took and failed on."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.taken = 0
        self.failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.taken += len(spans)
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:
            if result is not SpanExportResult.SUCCESS:
                self.failed += len(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)
