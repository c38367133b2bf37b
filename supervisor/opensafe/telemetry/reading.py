"""Traces read back: from the files that files.py writes, or from a Jaeger's query API.

Both hold OTLP's JSON (opentelemetry-proto, `TracesData`), so there is one decoder. What is read is text of agents and
of whoever else may send to a collector: it is decoded into types, bounded, and nothing of it is believed.
"""

import contextlib
import http.client
import pathlib
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from opensafe.errors import InvalidArgument, LimitExceeded, NotFound, Unavailable

#: Spans of one trace, and bytes of one answer, that are read.
_SPANS_MAX: Final = 200_000
_ANSWER_MAX: Final = 256 << 20
_TIMEOUT_S: Final = 30
#: What a decoder says: no JSON, not these types, nested without end.
_UNREADABLE: Final = (msgspec.DecodeError, RecursionError)
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")

Value = str | bool | int | float | tuple[str, ...]


class ReadSpan(msgspec.Struct, frozen=True, kw_only=True):
    """One span. parent_id: "" at the root. Times in nanoseconds since the epoch."""

    span_id: str
    parent_id: str
    service: str
    name: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Value]
    failed: bool

    @property
    def duration_ns(self) -> int:
        """Never negative, whatever was sent."""
        return max(self.end_ns - self.start_ns, 0)

    def text(self, key: str) -> str:
        """An attribute as text; "" where there is none."""
        value = self.attributes.get(key, "")
        return value if isinstance(value, str) else str(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """An attribute that is a list of texts. Jaeger stores lists as JSON text."""
        value = self.attributes.get(key, ())
        if isinstance(value, str):
            with contextlib.suppress(*_UNREADABLE):
                return msgspec.json.decode(value, type=tuple[str, ...])
        return value if isinstance(value, tuple) else ()


class Source(Protocol):
    """Where traces are."""

    def trace(self, trace_id: str) -> tuple[ReadSpan, ...]:
        """All spans of a trace by their begin. Raises NotFound, InvalidArgument, LimitExceeded, Unavailable."""


class Files:
    """Of our file exporter; of each path the older file beside it as well, if it is there."""

    def __init__(self, paths: Sequence[pathlib.Path]) -> None:
        self._paths = [either for path in paths for either in (path.with_suffix(".1.jsonl"), path)]
        self._needed = set(paths)

    def trace(self, trace_id: str) -> tuple[ReadSpan, ...]:
        """As Source.trace. A line that is cut off, as the exporter's last one may be, counts as not written."""
        wanted = _checked(trace_id)
        return _ordered(self._spans(wanted), wanted)

    def _spans(self, trace_id: str) -> Iterator[ReadSpan]:
        needle = trace_id.encode()
        for path in self._paths:
            try:
                with path.open("rb") as lines:
                    for line in lines:
                        if needle in line:
                            with contextlib.suppress(*_UNREADABLE):
                                yield from _spans_of(_LINE.decode(line), trace_id)
            except OSError as error:
                if path in self._needed:
                    raise InvalidArgument(
                        f"traces can't be read: {error.strerror}",
                        value=path,
                        remedy="Name the file with --file, or a collector's query API with --jaeger.",
                    ) from error


class Jaeger:
    """A Jaeger's query API, v3, from 1.35 on. url: such as http://localhost:16686."""

    def __init__(self, url: str) -> None:
        try:
            scheme = urllib.parse.urlsplit(url).scheme
        except ValueError:
            scheme = ""
        if scheme not in ("http", "https"):
            raise InvalidArgument("a query API has an http or https address", value=url)
        self._url = url.rstrip("/")

    def trace(self, trace_id: str) -> tuple[ReadSpan, ...]:
        """As Source.trace."""
        wanted = _checked(trace_id)
        answer = self._get(f"{self._url}/api/v3/traces/{wanted}", wanted)
        try:
            found = [span for line in answer.splitlines() for span in _spans_of(_ANSWER.decode(line).result, wanted)]
        except _UNREADABLE as error:
            raise Unavailable(f"the answer is no trace: {error}", value=self._url) from error
        return _ordered(found, wanted)

    def _get(self, url: str, trace_id: str) -> bytes:
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - its scheme was checked
                body: bytes = answer.read(_ANSWER_MAX + 1)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise _missing(trace_id) from error
            raise Unavailable("the query API refuses", value=f"{url}: {error.code} {error.reason}") from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Unavailable(f"the query API can't be reached: {error}", value=url) from error
        if len(body) > _ANSWER_MAX:
            raise LimitExceeded("the trace is too long to read", value=url, limit=f"{_ANSWER_MAX} bytes")
        return body


class _Message(msgspec.Struct, frozen=True, rename="camel"):
    """A message of opentelemetry-proto in its JSON encoding."""


class _Array(_Message, frozen=True):
    values: "tuple[_Any, ...]" = ()


class _Any(_Message, frozen=True):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: str | int | None = None
    double_value: float | None = None
    array_value: _Array | None = None


class _Attribute(_Message, frozen=True):
    key: str
    value: _Any = _Any()


class _Status(_Message, frozen=True):
    code: int = 0


class _Span(_Message, frozen=True):
    trace_id: str
    span_id: str
    name: str = ""
    parent_span_id: str = ""
    start_time_unix_nano: str | int = 0
    end_time_unix_nano: str | int = 0
    attributes: tuple[_Attribute, ...] = ()
    status: _Status = _Status()


class _Scope(_Message, frozen=True):
    spans: tuple[_Span, ...] = ()


class _Resource(_Message, frozen=True):
    attributes: tuple[_Attribute, ...] = ()


class _OfResource(_Message, frozen=True):
    resource: _Resource = _Resource()
    scope_spans: tuple[_Scope, ...] = ()


class _TracesData(_Message, frozen=True):
    resource_spans: tuple[_OfResource, ...] = ()


class _Answer(_Message, frozen=True):
    result: _TracesData = _TracesData()


_LINE: Final = msgspec.json.Decoder(_TracesData)
_ANSWER: Final = msgspec.json.Decoder(_Answer)


def _spans_of(data: _TracesData, trace_id: str) -> Iterator[ReadSpan]:
    for of_resource in data.resource_spans:
        service = str(_attributes(of_resource.resource.attributes).get("service.name", ""))
        for scope in of_resource.scope_spans:
            for span in scope.spans:
                if span.trace_id.lower() == trace_id:
                    yield ReadSpan(
                        span_id=span.span_id,
                        parent_id=span.parent_span_id,
                        service=service,
                        name=span.name,
                        start_ns=_integer(span.start_time_unix_nano),
                        end_ns=_integer(span.end_time_unix_nano),
                        attributes=_attributes(span.attributes),
                        failed=span.status.code == 2,
                    )


def _attributes(sent: Iterable[_Attribute]) -> dict[str, Value]:
    return {one.key: value for one in sent if (value := _value(one.value)) is not None}


def _value(sent: _Any) -> Value | None:
    if sent.array_value is not None:
        return tuple(str(_value(one)) for one in sent.array_value.values if one.array_value is None)
    if sent.int_value is not None:
        return _integer(sent.int_value)
    for value in (sent.string_value, sent.bool_value, sent.double_value):
        if value is not None:
            return value
    return None


def _integer(sent: str | int) -> int:
    if isinstance(sent, str) and not re.fullmatch(r"-?[0-9]{1,20}", sent):
        return 0
    return int(sent)


def _checked(trace_id: str) -> str:
    if not _TRACE_ID.fullmatch(trace_id.lower()):
        raise InvalidArgument("a trace id has 32 hexadecimal digits", value=trace_id)
    return trace_id.lower()


def _ordered(spans: Iterable[ReadSpan], trace_id: str) -> tuple[ReadSpan, ...]:
    found: dict[str, ReadSpan] = {}
    for span in spans:
        found.setdefault(span.span_id, span)
        if len(found) > _SPANS_MAX:
            raise LimitExceeded("the trace has too many spans", value=trace_id, limit=_SPANS_MAX)
    if not found:
        raise _missing(trace_id)
    return tuple(sorted(found.values(), key=lambda span: (span.start_ns, span.end_ns, span.span_id)))


def _missing(trace_id: str) -> NotFound:
    return NotFound(
        "no such trace",
        value=trace_id,
        remedy="Spans are written a few seconds after they end, and a session's when it is closed.",
    )
