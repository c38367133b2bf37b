"""`python -m tools.dashboard`: writes deploy/grafana/opensafe.json, the dashboard of one or several daemons.

Classic JSON, which every Grafana from 11.6 on imports. A panel is an entry of the table: what it shows, in which unit,
and its queries; `$on` in a query stands for the matchers of job and instance, which every query has. A test makes the
file again and compares, and another holds it to the rules of Grafana's dashboard-linter.
"""

from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from grafana_foundation_sdk.builders import common, dashboard, prometheus, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement, TooltipDisplayMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    VariableRefresh,
    VariableSort,
)

PATH: Final = Path(__file__).resolve().parents[1] / "deploy" / "grafana" / "opensafe.json"
SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
ON: Final = 'job=~"$job", instance=~"$instance"'


class Panel(NamedTuple):
    """queries: each with its legend; unit: as Grafana names it."""

    title: str
    text: str
    unit: str
    queries: tuple[tuple[str, str], ...]


def _rate(metric: str, by: str = "", where: str = "") -> str:
    matchers = f"{where}, $on" if where else "$on"
    return f"sum{f' by ({by}) ' if by else ''}(rate({metric}{{{matchers}}}[$__rate_interval]))"


def _quantile(of: float, metric: str, by: str = "", where: str = "") -> str:
    return f"histogram_quantile({of}, {_rate(f'{metric}_bucket', f'le, {by}' if by else 'le', where)})"


def _quantiles(metric: str, where: str = "") -> tuple[tuple[str, str], ...]:
    return tuple((_quantile(of, metric, where=where), f"p{of * 100:g}") for of in (0.5, 0.95, 0.99))


RPC: Final = "rpc_server_call_duration_seconds"
TOOL: Final = "gen_ai_execute_tool_duration_seconds"
EVALUATION: Final = "opensafe_policy_evaluation_duration_seconds"
START: Final = "opensafe_sandbox_start_duration_seconds"
EXEC: Final = 'rpc_method="opensafe.v1.ExecService/Exec"'

ROWS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    (
        "Requests",
        (
            Panel(
                "Requests",
                "Requests answered per second, by method.",
                "reqps",
                ((_rate(f"{RPC}_count", "rpc_method"), "{{rpc_method}}"),),
            ),
            Panel(
                "Failed requests",
                "Requests per second that did not end with OK, by method and status.",
                "reqps",
                (
                    (
                        _rate(f"{RPC}_count", "rpc_method, rpc_response_status_code", 'rpc_response_status_code!="OK"'),
                        "{{rpc_method}} {{rpc_response_status_code}}",
                    ),
                ),
            ),
            Panel(
                "Duration of Exec",
                "How long an Exec stream lives: judging, running and reading included.",
                "s",
                _quantiles(RPC, EXEC),
            ),
        ),
    ),
    (
        "Calls",
        (
            Panel(
                "Calls ended",
                "Calls per second, by how they ended.",
                "ops",
                ((_rate("opensafe_calls_ended_total", "outcome"), "{{outcome}}"),),
            ),
            Panel(
                "Duration by tool",
                "95th percentile of the duration of calls that are over, a wait for a reviewer included.",
                "s",
                ((_quantile(0.95, TOOL, "gen_ai_tool_name"), "{{gen_ai_tool_name}}"),),
            ),
            Panel(
                "Under way",
                "Calls under way and programs that run, beside the most that may.",
                "short",
                (
                    ("sum(opensafe_calls_running{$on})", "calls"),
                    ("sum(opensafe_execs_running{$on})", "programs"),
                    ('sum(opensafe_limit{of="calls", $on})', "limit"),
                ),
            ),
        ),
    ),
    (
        "Policy",
        (
            Panel(
                "Verdicts",
                "Verdicts per second, by action.",
                "ops",
                ((_rate("opensafe_policy_decisions_total", "action"), "{{action}}"),),
            ),
            Panel(
                "What blocks",
                "Blocks per second, by the family of the rule that decides.",
                "ops",
                ((_rate("opensafe_policy_decisions_total", "rule", 'action="block"'), "{{rule}}"),),
            ),
            Panel("Evaluation", "How long the policy takes to evaluate.", "s", _quantiles(EVALUATION)),
            Panel(
                "No verdict",
                "Blocks per second because policy reached no verdict, and requests refused before policy.",
                "ops",
                (
                    (_rate("opensafe_policy_no_verdict_total"), "no verdict"),
                    (_rate("opensafe_refusals_total", "reason"), "{{reason}}"),
                ),
            ),
            Panel(
                "Age of the bundle",
                "How long the bundle in force has been so.",
                "s",
                (("time() - opensafe_policy_bundle_activated_timestamp_seconds{$on}", "{{instance}}"),),
            ),
            Panel(
                "Reviews",
                "Calls that wait for a reviewer.",
                "short",
                (("sum(opensafe_reviews_waiting{$on})", "waiting"),),
            ),
            Panel(
                "Oldest review",
                "How long the oldest of them waits.",
                "s",
                (("max(opensafe_reviews_oldest_age_seconds{$on})", "oldest"),),
            ),
        ),
    ),
    (
        "Sandboxes",
        (
            Panel(
                "Sandboxes",
                "Sandboxes by state, and all of which there is something on the host.",
                "short",
                (
                    ("sum by (state) (opensafe_sandboxes{$on})", "{{state}}"),
                    ("sum(opensafe_sandboxes_on_host{$on})", "on the host"),
                ),
            ),
            Panel(
                "Start",
                "99th percentile of the time to make a sandbox, by whether the pool had one.",
                "s",
                ((_quantile(0.99, START, "warm"), "warm: {{warm}}"),),
            ),
            Panel(
                "Lost",
                "Sandboxes per second that ended by themselves, by cause.",
                "ops",
                ((_rate("opensafe_sandboxes_lost_total", "cause"), "{{cause}}"),),
            ),
            Panel(
                "Pool",
                "Sandboxes ready, beside those wanted.",
                "short",
                (
                    ("sum by (principal, template) (opensafe_pool_ready{$on})", "{{principal}} {{template}} ready"),
                    ("sum by (principal, template) (opensafe_pool_wanted{$on})", "{{principal}} {{template}} wanted"),
                ),
            ),
            Panel(
                "Monitor",
                "Executions per second that the monitor judged, and that it refused.",
                "ops",
                (
                    (_rate("opensafe_monitor_executions_total"), "judged"),
                    (_rate("opensafe_monitor_refused_total"), "refused"),
                ),
            ),
        ),
    ),
    (
        "Way out",
        (
            Panel(
                "Let out",
                "Connections and names that were allowed per second, by layer.",
                "ops",
                ((_rate("opensafe_egress_total", "layer", 'action="allowed"'), "{{layer}}"),),
            ),
            Panel(
                "Refused",
                "Connections, packets and names that were refused per second, by layer.",
                "ops",
                ((_rate("opensafe_egress_total", "layer", 'action="refused"'), "{{layer}}"),),
            ),
            Panel(
                "Ended",
                "Connections per second that ended by themselves, and that were cut.",
                "ops",
                ((_rate("opensafe_egress_total", "action", 'action=~"ended|cut"'), "{{action}}"),),
            ),
        ),
    ),
    (
        "Evidence",
        (
            Panel(
                "Records",
                "Records written to the audit log per second, by kind.",
                "ops",
                ((_rate("opensafe_audit_records_total", "kind"), "{{kind}}"),),
            ),
            Panel(
                "Not yet signed",
                "Records that no checkpoint covers.",
                "short",
                (("opensafe_audit_log_records{$on} - opensafe_audit_checkpoint_records{$on}", "{{instance}}"),),
            ),
            Panel(
                "Failures",
                "1 where the log takes no more records, where the warden does not vouch for it, or does not answer.",
                "bool",
                (
                    ("max(opensafe_audit_failed{$on})", "log failed"),
                    ("max(opensafe_audit_checkpoint_failed{$on})", "not vouched for"),
                    ("max(1 - opensafe_warden_up{$on})", "warden silent"),
                ),
            ),
            Panel(
                "Spans dropped",
                "Spans per second that nobody will see, by reason.",
                "ops",
                ((_rate("opensafe_spans_dropped_total", "reason"), "{{reason}}"),),
            ),
        ),
    ),
    (
        "Front",
        (
            Panel(
                "Memory",
                "Resident memory of the front.",
                "bytes",
                (("process_resident_memory_bytes{$on}", "{{instance}}"),),
            ),
            Panel(
                "Processor",
                "Processors that the front keeps busy.",
                "short",
                (("rate(process_cpu_seconds_total{$on}[$__rate_interval])", "{{instance}}"),),
            ),
            Panel(
                "Descriptors",
                "Open descriptors of the front, beside the most that may be open.",
                "short",
                (("process_open_fds{$on}", "{{instance}} open"), ("process_max_fds{$on}", "{{instance}} limit")),
            ),
        ),
    ),
)


def _panel(panel: Panel) -> timeseries.Panel:
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    made = (
        timeseries.Panel()
        .title(panel.title)
        .description(panel.text)
        .unit(panel.unit)
        .min(0)
        .datasource(SOURCE)
        .span(8)
        .height(7)
        .legend(legend.show_legend(True))
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    )
    for number, (query, name) in enumerate(panel.queries):
        target = prometheus.Dataquery().expr(query.replace("$on", ON)).legend_format(name).range()
        made.with_target(target.datasource(SOURCE).ref_id(chr(ord("A") + number)))
    return made


def _variable(name: str, label: str, query: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".+")
    )


def text() -> str:
    """The dashboard as JSON."""
    made = (
        dashboard.Dashboard("OpenSafe")
        .uid("opensafe")
        .description("Calls, verdicts, sandboxes and evidence of the OpenSafe daemon.")
        .tags(["opensafe"])
        .readonly()
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .time("now-6h", "now")
        .refresh("30s")
        .timezone("browser")
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(_variable("job", "Job", "label_values(opensafe_build_info, job)"))
        .with_variable(_variable("instance", "Instance", 'label_values(opensafe_build_info{job=~"$job"}, instance)'))
    )
    numbers = count(1)
    for title, panels in ROWS:
        made.with_row(dashboard.Row(title).id(next(numbers)))
        for panel in panels:
            made.with_panel(_panel(panel).id(next(numbers)))
    return JSONEncoder(sort_keys=True, indent=2).encode(made.build()) + "\n"


if __name__ == "__main__":
    PATH.write_text(text())
