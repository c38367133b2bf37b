"""The spans of some traces, out of the files that files.py writes: lines of the same form, with those spans alone."""

import pathlib
from collections.abc import Iterator
from typing import Any

import msgspec


def excerpt(directory: pathlib.Path, traces: frozenset[str]) -> Iterator[bytes]:
    """Lines (without newline) of `traces.1.jsonl`, then of `traces.jsonl`, if they are there.

    A line that can't be read, as the last one may be that is being written, counts as not written.
    """
    for path in (directory / "traces.1.jsonl", directory / "traces.jsonl"):
        if not path.exists():
            continue
        with path.open("rb") as lines:
            for line in lines:
                try:
                    kept = _kept(msgspec.json.decode(line), traces)
                except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
                    continue
                if kept:
                    yield msgspec.json.encode({"resourceSpans": kept})


def _kept(message: dict[str, Any], traces: frozenset[str]) -> list[dict[str, Any]]:
    kept = []
    for resource in message["resourceSpans"]:
        scopes = []
        for scope in resource["scopeSpans"]:
            spans = [span for span in scope["spans"] if span["traceId"] in traces]
            if spans:
                scopes.append(scope | {"spans": spans})
        if scopes:
            kept.append(resource | {"scopeSpans": scopes})
    return kept
