"""All metrics by name, and their text as Prometheus reads it.

A table: what is counted comes from meters.py, what stands somewhere already (index, log, warden) is read when somebody
asks. docs/metrics.md is this table in other words; a test compares them. Names and buckets of gen_ai_* and rpc_* are
OpenTelemetry's, translated as Prometheus spells them.

A front that served many tools and methods has thousands of lines to tell, which takes milliseconds: calls pass between
one metric and the next.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Final

import msgspec
from prometheus_client import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from .meters import Counts, Labels, Meters, Times

Values = Mapping[Labels, float]
_NONE: Final[Values] = {}


class Pool(msgspec.Struct, frozen=True):
    """The entries of one principal and template together: sandboxes wanted and ready, failures in a row."""

    principal: str
    template: str
    wanted: int = 0
    ready: int = 0
    failures: int = 0


class Root(msgspec.Struct, frozen=True, kw_only=True):
    """What the warden says of itself."""

    sandboxes: int
    programs: int
    ledger_records: int
    append_only: bool
    checkpoint_records: int
    checkpoint_us: int
    checkpoint_failed: bool
    reports: int
    executions: int
    refused: int
    pool: tuple[Pool, ...]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How things stand at one moment. root: None where the warden did not answer.

    oldest_review_s: how long the oldest waits, 0 where none does. limits: the caps of the configuration, by what of.
    """

    version: str
    revision: str
    bundle_number: int
    bundle_us: int
    bundle_in_force: bool
    reviews: int
    oldest_review_s: float
    sandboxes: Mapping[str, int]
    calls: int
    limits: Mapping[str, int]
    audit_records: int
    audit_failed: bool
    spans_dropped: Mapping[str, int]
    root: Root | None


Read = Callable[[Meters, Standing], Values]


class Family(msgspec.Struct, frozen=True):
    """One metric: its name, what it is, and the names of its labels."""

    name: str
    text: str
    labels: tuple[str, ...]


class Number(Family, frozen=True):
    """One number for each set of labels."""

    read: Read


class Counter(Number, frozen=True):
    """What only grows; the name ends in _total."""


class Gauge(Number, frozen=True):
    """What stands at a value."""


class Histogram(Family, frozen=True):
    """Durations in seconds."""

    read: Callable[[Meters], Times]


def _counted(of: Callable[[Meters], Counts]) -> Read:
    return lambda meters, _: of(meters).series


def _one(of: Callable[[Standing], float]) -> Read:
    return lambda _, now: {(): of(now)}


def _by(of: Callable[[Standing], Mapping[str, float]]) -> Read:
    return lambda _, now: {(key,): value for key, value in of(now).items()}


def _root(of: Callable[[Root], float]) -> Read:
    return lambda _, now: {(): of(now.root)} if now.root is not None else _NONE


def _pool(of: Callable[[Pool], float]) -> Read:
    return lambda _, now: {(one.principal, one.template): of(one) for one in now.root.pool} if now.root else _NONE


_POOL: Final = ("principal", "template")

FAMILIES: Final[tuple[Counter | Gauge | Histogram, ...]] = (
    Histogram(
        "rpc_server_call_duration_seconds",
        "Requests answered, by method and gRPC status; of a stream its whole life.",
        ("rpc_system_name", "rpc_method", "rpc_response_status_code"),
        lambda meters: meters.requests,
    ),
    Histogram(
        "gen_ai_execute_tool_duration_seconds",
        "Tool calls that are over, by tool and what they failed with; a wait for a reviewer included.",
        ("gen_ai_tool_name", "error_type"),
        lambda meters: meters.tools,
    ),
    Histogram("gen_ai_invoke_agent_duration_seconds", "Sessions that were closed.", (), lambda meters: meters.agents),
    Counter(
        "opensafe_calls_ended_total",
        "Calls and permits that are over, by how they ended.",
        ("outcome",),
        _counted(lambda meters: meters.ended),
    ),
    Gauge("opensafe_calls_running", "Calls under way, parked ones not counted.", (), _one(lambda now: now.calls)),
    Gauge("opensafe_limit", "Upper bounds of the configuration.", ("of",), _by(lambda now: now.limits)),
    Counter(
        "opensafe_refusals_total",
        "Requests refused before they came to policy, or not permitted, by the error's reason.",
        ("reason",),
        _counted(lambda meters: meters.refusals),
    ),
    Counter(
        "opensafe_policy_decisions_total",
        "Verdicts, by purpose, action, and the first two words of the id of the first rule that decides.",
        ("purpose", "action", "rule"),
        _counted(lambda meters: meters.decisions),
    ),
    Histogram(
        "opensafe_policy_evaluation_duration_seconds",
        "Evaluations of the policy, by entry point.",
        ("entrypoint",),
        lambda meters: meters.evaluations,
    ),
    Counter(
        "opensafe_policy_no_verdict_total",
        "Blocks because the evaluation failed or was undefined, or its grant did not cover the call.",
        (),
        _counted(lambda meters: meters.no_verdict),
    ),
    Gauge(
        "opensafe_policy_bundle_info",
        "The bundle in force; the value is 1.",
        ("revision", "number"),
        lambda _, now: {(now.revision, str(now.bundle_number)): 1},
    ),
    Gauge(
        "opensafe_policy_bundle_activated_timestamp_seconds",
        "When it was activated.",
        (),
        _one(lambda now: now.bundle_us / 1e6),
    ),
    Gauge(
        "opensafe_policy_bundle_in_force",
        "1 where the bundle in place is in force, 0 where it was refused and the one before holds.",
        (),
        _one(lambda now: now.bundle_in_force),
    ),
    Counter(
        "opensafe_policy_bundles_total",
        "Bundles activated, refused, or removed from the archive.",
        ("state",),
        _counted(lambda meters: meters.bundles),
    ),
    Gauge("opensafe_reviews_waiting", "Calls and permits that wait.", (), _one(lambda now: now.reviews)),
    Gauge(
        "opensafe_reviews_oldest_age_seconds",
        "How long the oldest of them waits; 0 where none does.",
        (),
        _one(lambda now: now.oldest_review_s),
    ),
    Counter(
        "opensafe_reviews_decided_total",
        "Reviews, by what they came to.",
        ("state",),
        _counted(lambda meters: meters.reviews),
    ),
    Gauge("opensafe_sandboxes", "Sandboxes that clients have, by state.", ("state",), _by(lambda now: now.sandboxes)),
    Gauge(
        "opensafe_sandboxes_on_host",
        "Sandboxes of which there is something on the host, the pool's included.",
        (),
        _root(lambda root: root.sandboxes),
    ),
    Histogram(
        "opensafe_sandbox_start_duration_seconds",
        "Sandboxes made, and whether they came out of the pool.",
        ("warm",),
        lambda meters: meters.starts,
    ),
    Counter(
        "opensafe_sandboxes_lost_total",
        "Sandboxes that ended by themselves, by cause.",
        ("cause",),
        _counted(lambda meters: meters.sandboxes_lost),
    ),
    Gauge("opensafe_execs_running", "Programs that run in sandboxes.", (), _root(lambda root: root.programs)),
    Gauge("opensafe_pool_wanted", "Sandboxes to be kept ready.", _POOL, _pool(lambda one: one.wanted)),
    Gauge("opensafe_pool_ready", "Sandboxes that are ready.", _POOL, _pool(lambda one: one.ready)),
    Gauge("opensafe_pool_failures", "Failed attempts in a row.", _POOL, _pool(lambda one: one.failures)),
    Counter(
        "opensafe_monitor_reports_total",
        "Reports of the sentries that the helper has read since it started.",
        (),
        _root(lambda root: root.reports),
    ),
    Counter(
        "opensafe_monitor_executions_total",
        "Executions among them that were judged.",
        (),
        _root(lambda root: root.executions),
    ),
    Counter(
        "opensafe_monitor_refused_total",
        "Executions that were refused: their call or sandbox was ended.",
        (),
        _root(lambda root: root.refused),
    ),
    Counter(
        "opensafe_egress_total",
        "Connections, packets and DNS questions of sandboxes that were allowed or refused, and what ended or was cut.",
        ("layer", "action"),
        _counted(lambda meters: meters.egress),
    ),
    Counter(
        "opensafe_audit_records_total",
        "Records written to the audit log, by kind.",
        ("kind",),
        _counted(lambda meters: meters.records),
    ),
    Gauge("opensafe_audit_log_records", "Records of the whole log.", (), _one(lambda now: now.audit_records)),
    Gauge(
        "opensafe_audit_failed",
        "1 where the log takes no more records, and nothing executes.",
        (),
        _one(lambda now: now.audit_failed),
    ),
    Gauge(
        "opensafe_audit_append_only",
        "1 where the file system holds the segments append-only.",
        (),
        _root(lambda root: root.append_only),
    ),
    Gauge(
        "opensafe_audit_checkpoint_records",
        "Records that the last checkpoint covers.",
        (),
        _root(lambda root: root.checkpoint_records),
    ),
    Gauge(
        "opensafe_audit_checkpoint_timestamp_seconds",
        "When the last checkpoint was signed; 0 where there is none.",
        (),
        _root(lambda root: root.checkpoint_us / 1e6),
    ),
    Gauge(
        "opensafe_audit_checkpoint_failed",
        "1 where the warden does not vouch for the log, and starts nothing.",
        (),
        _root(lambda root: root.checkpoint_failed),
    ),
    Gauge("opensafe_ledger_records", "Entries of the warden's ledger.", (), _root(lambda root: root.ledger_records)),
    Gauge("opensafe_warden_up", "1 where the warden answered.", (), _one(lambda now: now.root is not None)),
    Counter(
        "opensafe_spans_dropped_total",
        "Spans that were lost: the queue was full, or the export failed.",
        ("reason",),
        _by(lambda now: now.spans_dropped),
    ),
    Gauge("opensafe_build_info", "The version; the value is 1.", ("version",), lambda _, now: {(now.version,): 1}),
)

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

_process: Final = ProcessCollector(registry=None)


class _Part(Collector):
    """Some of the metrics, as the client library asks for them."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


async def exposition(meters: Meters, standing: Standing) -> bytes:
    """The text of all metrics, those of this process among them."""
    parts = []
    for family in FAMILIES:
        parts.append(generate_latest(_Part([_metric(family, meters, standing)])))
        await asyncio.sleep(0)
    parts.append(generate_latest(_process))
    return b"".join(parts)


def _metric(family: Counter | Gauge | Histogram, meters: Meters, standing: Standing) -> Metric:
    name, text, labels = family.name, family.text, family.labels
    if isinstance(family, Histogram):
        times = family.read(meters)
        bounds = [*map(floatToGoString, times.bounds), "+Inf"]
        durations = HistogramMetricFamily(name, text, labels=labels)
        for values, counts in times.series.items():
            reached = accumulate(counts[:-1])
            durations.add_metric(values, list(zip(bounds, reached, strict=True)), counts[-1])
        return durations
    made = CounterMetricFamily if isinstance(family, Counter) else GaugeMetricFamily
    metric = made(name, text, labels=labels)
    for values, value in family.read(meters, standing).items():
        metric.add_metric(values, value)
    return metric
