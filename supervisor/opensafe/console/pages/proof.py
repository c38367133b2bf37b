"""The screen Red-team scenarios: the last reports of proof by family, boundary, target; rates over time; runs."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from opensafe.console import reported
from opensafe.console.app import feed, form, lasts, of, person, signed_in
from opensafe.console.proving import Proving
from opensafe.console.report_forms import Beside, Campaign, Mutant, Played, Probe, RedTeam
from opensafe.console.reports import Report, Sight
from opensafe.console.roles import STAFF, require
from opensafe.console.runs import KINDS
from opensafe.console.stream import events
from opensafe.errors import NotFound

#: Rates that are drawn over time, and their goals, by kind of report.
_TRENDS: Final = {
    "redteam": (("block_rate", "goal_block_rate"), ("false_block_rate", "goal_false_block_rate")),
    "redteam-policy": (("block_rate", "goal_block_rate"), ("false_block_rate", "goal_false_block_rate")),
    "redteam-scenarios": (("scenarios_block_rate", ""), ("scenarios_false_block_rate", "")),
    "redteam-agentdojo": (("attack_success_rate", ""), ("utility", "goal_utility")),
}
_RED: Final = tuple(_TRENDS)
#: Names of what was missed, of oracles' findings, lines of a run: what a page shows of them.
SHOWN: Final = 50
LISTED: Final = 40
_LINES: Final = 12
#: Campaigns' files are looked at no more often.
_LOOKS_S: Final = 1.0

_T = TypeVar("_T")


def routes() -> list[Route]:
    """GET /proof, its stream and /proof/reports/NAME; POST /proof/runs, /proof/stop."""
    return [
        Route("/proof", signed_in(show), methods=["GET"]),
        Route("/proof/events", signed_in(follow), methods=["GET"]),
        Route("/proof/reports/{name}", signed_in(one), methods=["GET"]),
        Route("/proof/runs", signed_in(start), methods=["POST"]),
        Route("/proof/stop", signed_in(stop), methods=["POST"]),
    ]


async def show(request: Request) -> Response:
    """The newest of every kind. Raises NotPermitted."""
    await require(feed(request).client, STAFF)
    proving = of(request).proving
    values = await asyncio.to_thread(_newest, proving)
    return of(request).pages.answer(request, "proof.html", **values, **await _going(proving))


def _newest(proving: Proving) -> dict[str, Any]:
    """What the directory's reports come to. It reads files: for a thread."""
    sight = proving.shelf.look()
    red = [report for kind in _RED if (report := sight.last(kind)) is not None]
    first = sight.last(*_RED)
    return {
        "sight": sight,
        "directory": proving.directory,
        "red": _redteam(proving, sight, first) if first else None,
        "other_red": [report for report in red if report is not first],
        "escape": _drawn(proving, sight.last("escape"), tuple[Probe, ...], _escape),
        "campaign": _drawn(proving, sight.last("fuzz-campaign"), Campaign, _campaign),
        "mutants": _drawn(proving, sight.last("fuzz-mutants"), tuple[Mutant, ...], _mutants),
        "listed": sight.reports[:LISTED],
    }


async def one(request: Request) -> Response:
    """One report, whole. Raises NotFound, NotPermitted."""
    await require(feed(request).client, STAFF)
    values = await asyncio.to_thread(_whole, of(request).proving, request.path_params["name"])
    return of(request).pages.answer(request, "proof_report.html", **values)


def _whole(proving: Proving, name: str) -> dict[str, Any]:
    """What one report comes to. Raises NotFound. It reads files: for a thread."""
    sight = proving.shelf.look()
    report = next((each for each in sight.reports if each.name == name), None)
    if report is None:
        raise NotFound("there is no such report", value=name)
    values: dict[str, Any] = {"report": report, "red": None, "escape": None, "campaign": None, "mutants": None}
    if report.kind in _RED:
        values["red"] = _redteam(proving, sight, report)
    elif report.kind == "escape":
        values["escape"] = _drawn(proving, report, tuple[Probe, ...], _escape)
    elif report.kind == "fuzz-campaign":
        values["campaign"] = _drawn(proving, report, Campaign, _campaign)
    elif report.kind == "fuzz-mutants":
        values["mutants"] = _drawn(proving, report, tuple[Mutant, ...], _mutants)
    return values


async def follow(request: Request) -> Response:
    """The run and the campaigns, as they go on."""
    await require(feed(request).client, STAFF)
    pages, language, proving = of(request).pages, request.state.language, of(request).proving
    fixed = {"person": person(request), "directory": proving.directory}

    looked: dict[str, Any] = {"at": 0.0}

    async def regions() -> Mapping[str, str]:
        if time.monotonic() - looked["at"] >= _LOOKS_S:
            looked["campaigns"] = await asyncio.to_thread(proving.campaigns.look)
            looked["at"] = time.monotonic()
        values = fixed | _run(proving) | {"campaigns": looked["campaigns"]}
        return {name: pages.draw(f"proof/{name}.html", language, values) for name in ("run", "progress")}

    return events(feed(request), regions, lasts(request))


async def start(request: Request) -> Response:
    """Start a run. Raises NotPermitted, InvalidArgument, Conflict, HostUnsuitable."""
    fields = await form(request)
    await require(feed(request).client, STAFF)
    await of(request).proving.runner.start(fields.get("kind", ""), person(request).name)
    return RedirectResponse("/proof", 303)


async def stop(request: Request) -> Response:
    """Have the run end. Raises NotPermitted."""
    await form(request)
    await require(feed(request).client, STAFF)
    of(request).proving.runner.stop(person(request).name)
    return RedirectResponse("/proof", 303)


async def _going(proving: Proving) -> dict[str, Any]:
    return _run(proving) | {"campaigns": await asyncio.to_thread(proving.campaigns.look)}


def _run(proving: Proving) -> dict[str, Any]:
    run = proving.runner.current
    return {
        "run": run,
        "lines": list(run.lines)[-_LINES:] if run else [],
        "kinds": list(KINDS.values()),
        "startable": {name: proving.runner.startable(kind) for name, kind in KINDS.items()},
        "writable": proving.shelf.writable,
        "as_root": os.geteuid() == 0,
    }


def _drawn(
    proving: Proving, report: Report | None, form_: type[_T], draw: Callable[[_T], dict[str, Any]]
) -> dict[str, Any] | None:
    """A report and what its details come to; `why` where these can't be read. None where there is no report."""
    if report is None:
        return None
    try:
        return {"report": report, "why": "", **draw(proving.shelf.read(report.name, form_))}
    except NotFound as error:
        return {"report": report, "why": str(error)}


def _redteam(proving: Proving, sight: Sight, report: Report) -> dict[str, Any]:
    """A report of the red team, its rates over time, and what its command found beside the one before."""
    same = [each for each in sight.of(report.kind) if each.time_us <= report.time_us]
    trends = [reported.trend(same, rate, goal) for rate, goal in _TRENDS[report.kind]]
    form_: type[Any] = {"redteam-scenarios": Played, "redteam-agentdojo": Beside}.get(report.kind, RedTeam)
    return {
        "families": [],
        "honest": [],
        "missed": ([], []),
        "compared": None,
        "trends": [one for one in trends if one is not None],
    } | (_drawn(proving, report, form_, _families) or {})


def _families(found: Beside) -> dict[str, Any]:
    match found:
        case Played():
            missed = [line.id for line in found.lines if not line.stopped]
            falsely = [line.id for line in found.lines if not line.honest]
            more: dict[str, Any] = {"families": reported.played(found.families), "missed": (missed, falsely)}
        case RedTeam():
            more = {
                "families": reported.families(found),
                "honest": reported.honest(found),
                "missed": reported.missed(found),
            }
        case _:
            more = {}
    return more | {"compared": found.baseline}


def _escape(found: tuple[Probe, ...]) -> dict[str, Any]:
    return {
        "boundaries": reported.boundaries(found),
        "layers": reported.layers(found),
        "contained": sum(one.verdict == "contained" for one in found),
        "odd": [one for one in found if one.verdict != "contained" or not one.control_breached],
    }


def _campaign(found: Campaign) -> dict[str, Any]:
    return {
        "oracles": list(found.oracles.values()),
        "planted": found.planted,
        "findings": found.findings[:SHOWN],
        "findings_total": len(found.findings),
        "rules": sorted(found.policy_rules.items(), key=lambda one: -one[1])[:SHOWN],
        "faults": found.faults[:SHOWN],
    }


def _mutants(found: tuple[Mutant, ...]) -> dict[str, Any]:
    return {"targets": reported.targets(found), "survived": [one for one in found if one.why], "all": found}
