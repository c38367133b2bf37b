"""Traces and their comparison as lines for people and as a report's values."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from opensafe.model.printable import harmless
from opensafe.telemetry import semconv
from opensafe.telemetry.diff import CallPair, CallSeen, Diff, Node, walk
from opensafe.telemetry.reading import ReadSpan

#: Columns of a tree's names, and the depth beyond which they are not indented further.
_NAME: Final = 52
_DEPTH: Final = 16

#: How Jaeger's comparison names what it colours.
KINDS: Final = {"same": " ", "fewer": "-", "more": "+", "only in A": "-", "only in B": "+"}


def tree_lines(spans: Sequence[ReadSpan]) -> Iterator[str]:
    """One trace: a line a span with its duration and what it says, children below their parent."""
    begin, end = min(span.start_ns for span in spans), max(span.end_ns for span in spans)
    yield f"{len(spans)} spans, {duration(max(end - begin, 0))}"
    for span, depth in walk(spans):
        yield f"{_indented(depth, span.name)} {duration(span.duration_ns):>10}  {_said(span)}".rstrip()


def diff_lines(diff: Diff, names: tuple[str, str]) -> Iterator[str]:
    """The comparison: who was compared, what differs in structure, which calls differ and how."""
    for side, name, revisions in zip("AB", names, diff.revisions, strict=True):
        yield f"{side}  {name}  bundle {', '.join(revisions) or 'none'}"
    yield ""
    nodes = list(diff.root.below())
    if diff.moved:
        yield from _node_lines(nodes)
    else:
        yield f"The structure is the same: {len(nodes)} places."
    yield ""
    changed = diff.changed
    yield f"{len(changed)} of {len(diff.calls)} calls differ" + (":" if changed else ".")
    for pair in changed:
        yield from _pair_lines(pair)


def kind(node: Node) -> str:
    """What happened to a place from A to B."""
    a, b = node.counts
    if a == b:
        return "same"
    if not b:
        return "only in A"
    if not a:
        return "only in B"
    return "fewer" if b < a else "more"


def call_text(call: CallSeen) -> str:
    """A call in words: verdicts with their rules, end, durations."""
    said = [verdict.action + (f" ({', '.join(verdict.rules)})" if verdict.rules else "") for verdict in call.verdicts]
    ended = call.outcome.replace("_", " ") or "no outcome"
    if call.exit_code is not None:
        ended += f" {call.exit_code}"
    took = [("policy", call.policy_ns), ("waited", call.waited_ns), ("ran", call.ran_ns)]
    times = ", ".join(f"{name} {duration(ns)}" for name, ns in took if ns)
    return "; ".join([*said, ended]) + (f"; {times}" if times else "")


def summary(diff: Diff, names: tuple[str, str]) -> dict[str, Any]:
    """The headline figures."""
    return {
        "a": names[0],
        "b": names[1],
        "calls": len(diff.calls),
        "calls_changed": len(diff.changed),
        "verdicts_changed": sum("verdict" in pair.changes for pair in diff.calls),
        "places_changed": len(diff.moved),
    }


def details(diff: Diff) -> dict[str, Any]:
    """Everything: the places with both counts, the calls in pairs."""
    return {
        "bundles": {"a": diff.revisions[0], "b": diff.revisions[1]},
        "places": [
            {
                "depth": node.depth,
                "service": node.place.service,
                "operation": node.place.operation,
                "leaf": node.place.leaf,
                "a": node.counts[0],
                "b": node.counts[1],
                "kind": kind(node),
                "a_ns": sum(span.duration_ns for span in node.spans[0]),
                "b_ns": sum(span.duration_ns for span in node.spans[1]),
            }
            for node in diff.root.below()
            if node.place is not None
        ],
        "calls": diff.calls,
    }


def duration(ns: int) -> str:
    """Nanoseconds for people."""
    if ns >= 60 * 10**9:
        return f"{ns / 60e9:.1f} min"
    if ns >= 10**9:
        return f"{ns / 1e9:.2f} s"
    return f"{ns / 1e6:.2f} ms"


def title(pair: CallPair) -> str:
    """Which call a pair is about."""
    call = pair.a or pair.b
    return f"{call.tool} {call.call_id}" if call else ""


def _node_lines(nodes: Sequence[Node]) -> Iterator[str]:
    yield f"  {'':{_NAME}} {'A':>5} {'B':>5}"
    for node in nodes:
        a, b = node.counts
        name = node.place.operation if node.place else ""
        change = "" if a == b else f"  {b - a:+} ({abs(a - b) * 100 // max(a, b)} %)"
        yield f"{KINDS[kind(node)]} {_indented(node.depth - 1, name)} {a:>5} {b:>5}{change}"


def _pair_lines(pair: CallPair) -> Iterator[str]:
    yield f"  {title(pair)}: {', '.join(pair.changes)}"
    for side, call in (("A", pair.a), ("B", pair.b)):
        if call is not None:
            yield f"    {side}  {call_text(call)}"


def _indented(depth: int, name: str) -> str:
    text = "  " * min(depth, _DEPTH) + harmless(name)
    return f"{text if len(text) <= _NAME else text[: _NAME - 1] + '…':{_NAME}}"


def _said(span: ReadSpan) -> str:
    keys = (semconv.ACTION, semconv.REVIEW_STATE, semconv.OUTCOME)
    said = [span.text(key).replace("_", " ") for key in keys if span.text(key)]
    said += [text for key in (semconv.PROCESS_EXIT_CODE, semconv.TOOL_CALL_ID) if (text := span.text(key))]
    rules = dict.fromkeys(span.texts(semconv.RULES))  # one can have fired for several values
    said += [f"({', '.join(rules)})"] if rules else []
    if span.text(semconv.TOKENS):
        said.append(f"{span.text(semconv.TOKENS)} tokens, {span.text(semconv.COST)} microdollars")
    return " ".join([*_reached(span), *said])


def _reached(span: ReadSpan) -> Iterator[str]:
    """What a span of a connection says."""
    address, layer, state = (
        span.text(key) for key in (semconv.SERVER_ADDRESS, semconv.EGRESS_LAYER, semconv.EGRESS_STATE)
    )
    if not layer:
        return
    yield ":".join(filter(None, (address, span.text(semconv.SERVER_PORT))))
    yield span.text(semconv.TRANSPORT) if layer == "packet" else layer
    yield state
    if span.text(semconv.EGRESS_COUNT):
        yield f"{span.text(semconv.EGRESS_COUNT)} times"
    if span.text(semconv.EGRESS_SENT):
        yield f"{span.text(semconv.EGRESS_SENT)} bytes sent, {span.text(semconv.EGRESS_RECEIVED)} received"
