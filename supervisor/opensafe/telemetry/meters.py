"""What is counted while calls pass: records as they are folded, spans and requests as they end.

In the way of every call, so a count is a dictionary's entry and a duration a place in a list: no locks, since the event
loop alone counts, and no objects of a metrics library, which metrics.py makes when somebody asks. All counts begin at
the front's start. Labels are bounded: never an id, a path or a host, and where the values are a bundle's or a client's
to choose, so many different ones and the rest as `other`.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from opensafe.model.decision import Action
from opensafe.model.outcome import FINAL, OutcomeKind
from opensafe.model.records import (
    BundleRecord,
    ConnectionRecord,
    DecisionRecord,
    OutcomeRecord,
    Record,
    RefusalRecord,
    ReviewRecord,
    SandboxRecord,
)

from . import semconv

OTHER: Final = "other"
#: Different sets of labels of one metric.
MOST: Final = 512
#: Different families of rules.
FAMILIES: Final = 64

#: Upper bounds in seconds, of the gen_ai and RPC conventions where they have them.
TOOL_BOUNDS: Final = tuple(0.01 * 2**step for step in range(14))
AGENT_BOUNDS: Final = tuple(0.1 * 2**step for step in range(13))
RPC_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
EVALUATION_BOUNDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
START_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

#: As OPA's decision log calls it.
_EVALUATION_NS: Final = "timer_rego_query_eval_ns"
_ENTRYPOINTS: Final = "opensafe/"
#: The first word of what the warden says of a lost sandbox, where it is one of these.
_CAUSES: Final = frozenset({"memory", "pids", "monitor", "killed", "sentry", "gofer", "pause", "resume"})
#: Of connections: what the helper says of them is not believed to be one of these.
_LAYERS: Final = frozenset({"dns", "tls", "http", "tcp", "packet"})
_STATES: Final = frozenset({"allowed", "refused", "ended", "cut"})


Labels = tuple[str, ...]

_KINDS: Final[dict[type, Labels]] = {kind: (str(kind.__struct_config__.tag),) for kind in get_args(Record)}


class Counts:
    """Counters by the values of their labels. known: those that are shown before they are counted first.

    A counter that appears with a 1 has grown in nobody's eyes: what alerts look at is there from the start.
    """

    def __init__(self, *known: str, most: int = MOST) -> None:
        self.series: dict[Labels, float] = {(value,): 0 for value in known}
        self._most = most

    def add(self, labels: Labels, amount: float = 1) -> None:
        """Count."""
        try:
            self.series[labels] += amount
        except KeyError:
            labels = _bounded(labels, self.series, self._most)
            self.series[labels] = self.series.get(labels, 0) + amount


class Times:
    """Histograms of durations by the values of their labels: how many up to each bound, how many beyond, their sum."""

    def __init__(self, bounds: tuple[float, ...], most: int = MOST) -> None:
        self.bounds = bounds
        self.series: dict[Labels, list[float]] = {}
        self._most = most

    def add(self, labels: Labels, seconds: float) -> None:
        """Count one."""
        found = self.series.get(labels)
        if found is None:
            found = self.series.setdefault(_bounded(labels, self.series, self._most), [0.0] * (len(self.bounds) + 2))
        found[bisect_left(self.bounds, seconds)] += 1
        found[-1] += seconds


def _bounded(labels: Labels, series: Mapping[Labels, object], most: int) -> Labels:
    return labels if len(series) < most else (OTHER,) * len(labels)


class Meters:
    """All counts of a front."""

    def __init__(self) -> None:
        self.decisions = Counts(most=2 * MOST)
        self._families: set[str] = {""}
        self.no_verdict = Counts()
        self.no_verdict.add((), 0)
        self.evaluations = Times(EVALUATION_BOUNDS)
        self.ended = Counts(*FINAL)
        self.reviews = Counts("approved", "rejected", "expired")
        self.refusals = Counts("LIMIT_EXCEEDED")
        self.sandboxes_lost = Counts(*_CAUSES, OTHER)
        self.egress = Counts()
        self.bundles = Counts("activated", "refused")
        self.records = Counts()
        self.tools = Times(TOOL_BOUNDS)
        self.agents = Times(AGENT_BOUNDS)
        self.starts = Times(START_BOUNDS)
        self.requests = Times(RPC_BOUNDS)
        self._begun = False
        self._by_kind: dict[type, Callable[[Any], None]] = {
            DecisionRecord: self._decision,
            OutcomeRecord: self._outcome,
            ReviewRecord: self._review,
            RefusalRecord: self._refusal,
            SandboxRecord: self._sandbox,
            BundleRecord: self._bundle,
            ConnectionRecord: self._connection,
        }
        self._by_span: dict[str, Callable[[Mapping[str, Any], float], None]] = {
            semconv.EXECUTE_TOOL: self._call,
            semconv.INVOKE_AGENT: self._agent,
            semconv.SPAN_SANDBOX_CREATE: self._start,
        }

    def begin(self) -> None:
        """Count records from here on: those of earlier lives, folded again at the start, were counted then."""
        self._begun = True

    def watching(self, fold: Callable[[int, Record, str], None]) -> Callable[[int, Record, str], None]:
        """`fold`, and what was folded is counted."""

        def folded(index: int, record: Record, leaf: str = "") -> None:
            fold(index, record, leaf)
            if self._begun:
                self.record(record)

        return folded

    def record(self, record: Record) -> None:
        """Count a record of the audit log."""
        kind = type(record)
        self.records.add(_KINDS[kind])
        count = self._by_kind.get(kind)
        if count is not None:
            count(record)

    def of_span(self, name: str) -> Callable[[Mapping[str, Any], float], None] | None:
        """What counts the spans of this name, with their attributes and seconds; None where nothing does."""
        return self._by_span.get(name.partition(" ")[0])

    def _call(self, attributes: Mapping[str, Any], seconds: float) -> None:
        """One without outcome is of what ran nowhere: a query, a permit, a sandbox's verdict."""
        outcome = attributes.get(semconv.OUTCOME)
        if outcome is None or outcome == OutcomeKind.REVIEW_PENDING:  # which goes on in a span of its own
            return
        self.tools.add((attributes.get(semconv.TOOL_NAME, ""), attributes.get(semconv.ERROR_TYPE, "")), seconds)

    def _start(self, attributes: Mapping[str, Any], seconds: float) -> None:
        warm = attributes.get(semconv.SANDBOX_WARM)
        if warm is not None:
            self.starts.add(("true" if warm else "false",), seconds)

    def _agent(self, _attributes: Mapping[str, Any], seconds: float) -> None:
        self.agents.add((), seconds)

    def request(self, method: str, code: str, seconds: float) -> None:
        """Count an answered request: the RPC's full name and the name of its status code."""
        self.requests.add(("grpc", method, code), seconds)

    def _decision(self, record: DecisionRecord) -> None:
        result, rule = record.result, ""
        for hit in result.rules:  # in order of action and id: the first of its action is the first that decides
            if hit.action is result.action:
                rule = ".".join(hit.id.split(".", 2)[:2])
                break
        if rule not in self._families:
            if len(self._families) > FAMILIES:
                rule = OTHER
            self._families.add(rule)
        self.decisions.add((record.purpose, result.action, rule))
        taken_ns = record.metrics.get(_EVALUATION_NS)
        if taken_ns is not None:
            self.evaluations.add((record.path.removeprefix(_ENTRYPOINTS),), taken_ns * 1e-9)
        if not result.data_version:
            self.no_verdict.add(())
        if result.action is Action.BLOCK and record.purpose == "call":
            self.ended.add((OutcomeKind.BLOCKED,))

    def _outcome(self, record: OutcomeRecord) -> None:
        if record.outcome.kind is not OutcomeKind.BLOCKED:  # which its decision was counted as
            self.ended.add((record.outcome.kind,))

    def _review(self, record: ReviewRecord) -> None:
        self.reviews.add((record.state,))

    def _refusal(self, record: RefusalRecord) -> None:
        self.refusals.add((record.reason,), record.count)

    def _sandbox(self, record: SandboxRecord) -> None:
        if record.state == "lost":
            first = record.cause.split(" ", 1)[0].rstrip(":")
            self.sandboxes_lost.add((first if first in _CAUSES else OTHER,))

    def _bundle(self, record: BundleRecord) -> None:
        self.bundles.add((record.state,))

    def _connection(self, record: ConnectionRecord) -> None:
        layer = record.layer if record.layer in _LAYERS else OTHER
        self.egress.add((layer, record.state if record.state in _STATES else OTHER), record.count)
