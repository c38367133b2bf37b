"""Two traces held against each other: their structure as Jaeger's comparison does it, then what that leaves out.

Structure: a span's place is the path of `service` and `operation` from its root, with a mark where it has no children.
Spans in one place are one node, and nodes differ by how many spans each trace has in them. Durations, attributes and
status don't count. Jaeger also folds client and server spans of one request, of which we make none.

Calls: each tool call of one trace is paired with one of the other, and differs by its verdicts, the rules behind them,
its outcome or its exit code. Durations stand beside them and never make a difference.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from . import semconv
from .reading import ReadSpan

#: Depth beyond which a path is not followed: what hangs there counts in the place of that depth.
_DEPTH_MAX: Final = 128


class Place(msgspec.Struct, frozen=True):
    """One step of a path. leaf: the span has no children, which Jaeger writes as `__LEAF__`."""

    service: str
    operation: str
    leaf: bool


class Node:
    """All spans in one place, of both traces."""

    def __init__(self, place: Place | None, depth: int) -> None:
        self.place = place
        self.depth = depth
        self.spans: tuple[list[ReadSpan], list[ReadSpan]] = [], []
        self.children: dict[Place, Node] = {}

    @property
    def counts(self) -> tuple[int, int]:
        """How many spans of A and of B."""
        return len(self.spans[0]), len(self.spans[1])

    def below(self) -> "Iterator[Node]":
        """The nodes below it, parents before children, siblings in the order in which they were first met."""
        waiting = list(reversed(self.children.values()))
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children.values())


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What policy said once: action, the ids of the rules that decided, sorted, and the bundle's revision."""

    action: str
    rules: tuple[str, ...]
    revision: str


class CallSeen(msgspec.Struct, kw_only=True):
    """One tool call as its spans tell it. More than one verdict where it was parked. exit_code: None if it has none."""

    call_id: str
    tool: str
    verdicts: tuple[Verdict, ...] = ()
    outcome: str = ""
    exit_code: int | None = None
    policy_ns: int = 0
    waited_ns: int = 0
    ran_ns: int = 0

    @property
    def actions(self) -> tuple[str, ...]:
        """The verdicts' actions in their order."""
        return tuple(verdict.action for verdict in self.verdicts)


class CallPair(msgspec.Struct, frozen=True, kw_only=True):
    """A call of each trace that are the same step; None where there is none. changes: in what they differ."""

    a: CallSeen | None
    b: CallSeen | None
    changes: tuple[str, ...]


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """root: of the common tree; it stands for no span. revisions: of the bundles that each was judged by."""

    root: Node
    calls: tuple[CallPair, ...]
    revisions: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def moved(self) -> tuple[Node, ...]:
        """The nodes in which the traces have another number of spans."""
        return tuple(node for node in self.root.below() if node.counts[0] != node.counts[1])

    @property
    def changed(self) -> tuple[CallPair, ...]:
        """The calls that differ."""
        return tuple(pair for pair in self.calls if pair.changes)


def compare(a: Sequence[ReadSpan], b: Sequence[ReadSpan]) -> Diff:
    """Hold B against A. Each is one trace, by begin."""
    root = Node(None, 0)
    plant(root, a, 0)
    plant(root, b, 1)
    calls = calls_of(a), calls_of(b)
    revisions = tuple(
        tuple(dict.fromkeys(verdict.revision for call in side for verdict in call.verdicts)) for side in calls
    )
    return Diff(root=root, calls=tuple(_paired(*calls)), revisions=(revisions[0], revisions[1]))


def plant(root: Node, spans: Sequence[ReadSpan], side: int) -> None:
    """Put a trace's spans into the tree."""
    parents = {span.parent_id for span in spans}
    path = [root]  # to the span before
    for span, depth in walk(spans):
        del path[depth + 1 :]
        node = path[-1]
        if node.depth < _DEPTH_MAX:
            place = Place(span.service, span.name, span.span_id not in parents)
            node = node.children.setdefault(place, Node(place, node.depth + 1))
            path.append(node)
        node.spans[side].append(span)


def walk(spans: Sequence[ReadSpan]) -> Iterator[tuple[ReadSpan, int]]:
    """Each span once with its depth, parents first. One whose parent is missing, or lies below itself, is a root."""
    children, left = _children_of(spans), {span.span_id for span in spans}
    for first in [span for span in spans if span.parent_id not in left] + list(spans):
        waiting = [(first, 0)]
        while waiting:
            span, depth = waiting.pop()
            if span.span_id in left:
                left.remove(span.span_id)
                yield span, depth
                waiting += [(child, depth + 1) for child in reversed(children.get(span.span_id, []))]


def _children_of(spans: Iterable[ReadSpan]) -> dict[str, list[ReadSpan]]:
    """Span id -> its children by begin."""
    found: dict[str, list[ReadSpan]] = defaultdict(list)
    for span in spans:
        found[span.parent_id].append(span)
    return dict(found)


def calls_of(spans: Sequence[ReadSpan]) -> list[CallSeen]:
    """The tool calls of a trace by begin; what came of a parked call after its review is part of that call."""
    children = _children_of(spans)
    parked: dict[tuple[str, str], CallSeen] = {}
    found: list[tuple[int, CallSeen]] = []
    for span in sorted(spans, key=lambda span: span.end_ns):  # a call's second part begins with its wait
        if span.text(semconv.OPERATION_NAME) != semconv.EXECUTE_TOOL:
            continue
        below = children.get(span.span_id, [])
        key = span.text(semconv.SESSION_ID), span.text(semconv.TOOL_CALL_ID)
        waited = any(child.name == semconv.SPAN_WAIT for child in below)
        call = parked.pop(key, None) if waited else None
        if call is None:
            call = CallSeen(call_id=key[1], tool=span.text(semconv.TOOL_NAME))
            found.append((span.start_ns, call))
        _add(call, span, below)
        if any(child.name == semconv.SPAN_REVIEW for child in below):
            parked[key] = call
    return [call for _, call in sorted(found, key=lambda one: one[0])]


def _add(call: CallSeen, span: ReadSpan, below: Iterable[ReadSpan]) -> None:
    call.outcome = span.text(semconv.OUTCOME)
    code = span.attributes.get(semconv.PROCESS_EXIT_CODE)
    call.exit_code = code if isinstance(code, int) else None
    for child in below:
        if child.name == semconv.SPAN_POLICY:
            rules = tuple(sorted(set(child.texts(semconv.RULES))))
            revision = child.text(semconv.BUNDLE_REVISION)
            call.verdicts += (Verdict(action=child.text(semconv.ACTION), rules=rules, revision=revision),)
            call.policy_ns += child.duration_ns
        elif child.name == semconv.SPAN_WAIT:
            call.waited_ns += child.duration_ns
        elif child.name == semconv.SPAN_SANDBOX_EXEC or child.name.startswith(semconv.SPAN_FILE):
            call.ran_ns += child.duration_ns


def _paired(a: list[CallSeen], b: list[CallSeen]) -> Iterator[CallPair]:
    """By call id where each has it once; else the first left of a tool with the first left of that tool, and so on."""
    once = [{key for key, number in Counter(call.call_id for call in side).items() if number == 1} for side in (a, b)]
    shared = once[0] & once[1]
    by_id = {call.call_id: call for call in b if call.call_id in shared}
    by_tool: dict[str, list[CallSeen]] = defaultdict(list)
    for call in reversed(b):
        if call.call_id not in shared:
            by_tool[call.tool].append(call)
    for call in a:
        waiting = by_tool[call.tool]
        other = by_id[call.call_id] if call.call_id in shared else waiting.pop() if waiting else None
        yield CallPair(a=call, b=other, changes=_changes(call, other))
    left = {id(call) for calls in by_tool.values() for call in calls}
    yield from (CallPair(a=None, b=call, changes=("only in B",)) for call in b if id(call) in left)


def _changes(a: CallSeen, b: CallSeen | None) -> tuple[str, ...]:
    if b is None:
        return ("only in A",)
    rules = [[verdict.rules for verdict in call.verdicts] for call in (a, b)]
    held = {
        "tool": a.tool != b.tool,
        "verdict": a.actions != b.actions,
        "rules": rules[0] != rules[1],
        "outcome": a.outcome != b.outcome,
        "exit code": a.exit_code != b.exit_code,
    }
    return tuple(name for name, differs in held.items() if differs)
