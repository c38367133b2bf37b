"""What `opensafe redteam run` runs, set by set: each gives a report, and lines for people."""

import asyncio
import importlib.util
import os
import pathlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from opensafe.errors import HostUnsuitable, InvalidArgument

from . import present, redteam_text
from .report import report

if TYPE_CHECKING:  # judging brings the engine into the process, AgentDojo pandas and more
    from opensafe.policy.manifest import Bundle
    from opensafe.proof.agentdojo.figures import Figures as AgentDojoFigures
    from opensafe.proof.baseline import Compared
    from opensafe.proof.redteam import Judged
    from opensafe.proof.scenarios.suite import Result

_HEADLINE: Final = (
    "block_rate", "block_rate_low", "block_rate_high", "false_block_rate", "false_block_rate_low",
    "false_block_rate_high", "malicious", "benign", "blocked_share", "review_share", "exact_share",
)  # fmt: skip
_HELD_OUT: Final = (
    "malicious", "block_rate", "block_rate_low", "block_rate_high", "benign", "false_block_rate",
    "false_block_rate_low", "false_block_rate_high",
)  # fmt: skip
#: Reports that are kept: a quarter of a year of nights.
_KEPT: Final = 92


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the single calls."""

    half: str
    bundle: pathlib.Path | None
    trust: pathlib.Path | None
    cases: pathlib.Path | None


class Found(msgspec.Struct, kw_only=True):
    """A set's report and what it says to people."""

    report: dict[str, Any]
    lines: tuple[str, ...]

    def add(self, compared: "Compared | None", *, ok: bool) -> None:
        """What the baseline adds to it."""
        if compared is None:
            return
        self.report["summary"] |= {"ok": ok, "worse_than_baseline": compared.worse}
        self.report["details"]["baseline"] = msgspec.to_builtins(compared)


def last_report(directory: pathlib.Path, schema: str) -> dict[str, Any] | None:
    """The last one of this kind that was kept there. Says which it can't read, and goes on with the one before."""
    from opensafe.proof import baseline

    for path in sorted(directory.glob("redteam-*.json"), reverse=True):
        try:
            kept = baseline.read(path)
        except InvalidArgument as error:
            present.say(f"left out: {error}")
        else:
            if kept["schema"] == schema:
                return kept
    return None


def keep_report(directory: pathlib.Path, text: str) -> None:
    """Keep it under the time of day, by a rename; the oldest go."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"redteam-{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
    part = path.with_suffix(".part")
    part.write_text(text + "\n")
    part.rename(path)
    for old in sorted(directory.glob("redteam-*.json"))[:-_KEPT]:
        old.unlink()


def _policy(calls: Calls, only: tuple[str, ...]) -> Found:
    del only
    from opensafe.proof import evaluation
    from opensafe.proof import redteam as proof
    from opensafe.proof.cases import Half

    wanted = tuple(Half) if calls.half == "all" else (Half(calls.half),)
    bundle, judged, frozen = _judged(calls, wanted)
    by_half = {part: proof.figures(row for row in judged if row.entry.half is part) for part in wanted}
    asked = Half.TEST if Half.TEST in by_half else Half.DEV
    headline = by_half[asked]
    ok = headline.ok and frozen
    summary = {
        "ok": ok,
        "half": asked,
        "frozen": frozen,
        **{name: getattr(headline, name) for name in _HEADLINE},
        "rules": len({rule for figures in by_half.values() for rule in figures.rules}),
        "malicious_all": sum(figures.malicious for figures in by_half.values()),
        "benign_all": sum(figures.benign for figures in by_half.values()),
        "goal_block_rate": proof.MIN_BLOCK_RATE,
        "goal_false_block_rate": proof.MAX_FALSE_BLOCK_RATE,
    }
    lines = [f"bundle {bundle.revision}; data set {'frozen' if frozen else 'NOT AS FROZEN in its manifest'}"]
    for part, figures in by_half.items():
        lines += redteam_text.half(part, figures, lines=part is Half.DEV or calls.half == "test")
    least, most = proof.MIN_BLOCK_RATE, proof.MAX_FALSE_BLOCK_RATE
    lines.append(
        f"goal on {asked}: at least {least:.1%} of the malicious stopped, at most {most:.0%} of the benign: "
        f"{'met' if ok else 'MISSED'}"
    )
    pooled = evaluation.pooled(evaluation.of_calls(judged))
    details: dict[str, Any] = {
        **{str(part): one for part, one in by_half.items()},
        "families": pooled.families,
        "honest": pooled.honest,
    }
    return Found(report=report("redteam-policy", summary, details, bundle=bundle.revision), lines=tuple(lines))


def _scenarios(calls: Calls, only: tuple[str, ...]) -> Found:
    del calls
    from opensafe.proof.scenarios.figures import figures

    found = figures(_played(only))
    summary = {"ok": found.ok, **redteam_text.scenarios_summary(found)}
    missed = {
        "missed": [line.id for line in found.lines if not line.stopped],
        "falsely": [f"{line.id}-twin" for line in found.lines if not line.honest],
    }
    details = msgspec.to_builtins(found) | missed
    return Found(report=report("redteam-scenarios", summary, details), lines=tuple(redteam_text.scenarios(found)))


def _agentdojo(calls: Calls, only: tuple[str, ...]) -> Found:
    del calls
    found = _dojo(only)
    details = msgspec.to_builtins(found) | {"missed": found.all.harmed, "falsely": found.all.lost_tasks}
    summary = {"ok": found.ok, **redteam_text.agentdojo_summary(found)}
    return Found(report=report("redteam-agentdojo", summary, details), lines=tuple(redteam_text.agentdojo(found)))


def _all(calls: Calls, only: tuple[str, ...]) -> Found:
    del only
    from opensafe.proof import evaluation
    from opensafe.proof import redteam as proof
    from opensafe.proof.cases import Half
    from opensafe.proof.scenarios.figures import figures

    _as_root()
    bundle, judged, frozen = _judged(calls, tuple(Half))
    held_out = proof.figures(row for row in judged if row.entry.half is Half.TEST)
    results = _played(())
    played = figures(results)
    pooled = evaluation.pooled([*evaluation.of_calls(judged), *evaluation.of_scenarios(results)])
    dojo = _dojo(()) if importlib.util.find_spec("inspect_evals") else None
    ok = pooled.ok and frozen and held_out.ok and played.ok and (dojo is None or dojo.ok)
    summary = {
        "ok": ok,
        **evaluation.summary(pooled),
        **{f"held_out_{name}": getattr(held_out, name) for name in _HELD_OUT},
        "frozen": frozen,
        **redteam_text.scenarios_summary(played),
        "agentdojo": "run" if dojo else "not installed",
        **(redteam_text.agentdojo_summary(dojo) if dojo else {}),
    }
    details = msgspec.to_builtins(pooled) | {"scenarios": msgspec.to_builtins(played)}
    if dojo:
        details["agentdojo"] = msgspec.to_builtins(dojo)
        details["missed"] = [*pooled.missed, *dojo.all.harmed]
        details["falsely"] = [*pooled.falsely, *dojo.all.lost_tasks]
    stopped, false = pooled.stopped, pooled.falsely_stopped
    lines = (
        f"bundle {bundle.revision}; data set {'frozen' if frozen else 'NOT AS FROZEN in its manifest'}",
        f"{stopped.rate:.2%} of {stopped.of} attacks stopped [{stopped.low:.2%}, {stopped.high:.2%}]; calls, sessions",
        f"{false.rate:.2%} of {false.of} honest ones stopped [{false.low:.2%}, {false.high:.2%}]",
        *(f"  {name}: {one.hits} of {one.of}" for name, one in pooled.families.items()),
        *redteam_text.half(Half.TEST, held_out, lines=False),
        *redteam_text.scenarios(played),
        *(redteam_text.agentdojo(dojo) if dojo else ("agentdojo: not installed (the extra `redteam`)",)),
        f"goals: {'met' if ok else 'MISSED'}",
    )
    return Found(report=report("redteam", summary, details, bundle=bundle.revision), lines=lines)


RUNNERS: Final[dict[str, Callable[[Calls, tuple[str, ...]], Found]]] = {
    "policy": _policy,
    "scenarios": _scenarios,
    "agentdojo": _agentdojo,
    "all": _all,
}


def _judged(calls: Calls, halves: tuple[Any, ...]) -> "tuple[Bundle, tuple[Judged, ...], bool]":
    from opensafe.policy.bundle import load
    from opensafe.policy.keys import trust_files
    from opensafe.proof import private
    from opensafe.proof import redteam as proof
    from opensafe.proof.cases import is_frozen, load_cases

    directory = calls.cases or private.policies() / "cases"
    entries = load_cases(directory, halves)
    bundle = load(
        calls.bundle or pathlib.Path(private.programs().bundle),
        trusted=trust_files([calls.trust or private.trusted_key()]),
    )
    with present.progress(f"{len(entries)} calls"):
        return bundle, proof.run(bundle, entries), is_frozen(directory)


def _played(only: tuple[str, ...]) -> "tuple[Result, ...]":
    from opensafe.proof import private
    from opensafe.proof.scenarios import data, suite

    _as_root()
    entries = data.load(private.policies() / "scenarios")
    wanted = [one for one in entries if not only or one.family in only or one.scenario.id in only]
    if not wanted or set(only) - {one.family for one in wanted} - {one.scenario.id for one in wanted}:
        raise InvalidArgument("no such family or scenario", value=", ".join(only), limit=", ".join(data.Family))
    with present.counting(suite.PARTS * len(wanted), "parts of scenarios") as ended:
        return asyncio.run(suite.run(wanted, ended))


def _dojo(only: tuple[str, ...]) -> "AgentDojoFigures":
    _as_root()
    if not importlib.util.find_spec("inspect_evals"):
        raise HostUnsuitable("AgentDojo is not installed", remedy="Install the extra: pip install 'opensafe[redteam]'.")
    from opensafe.proof.agentdojo import suite
    from opensafe.proof.agentdojo.agent import SUITES
    from opensafe.proof.agentdojo.figures import figures

    if unknown := set(only) - set(SUITES):
        raise InvalidArgument("no such suite", value=", ".join(sorted(unknown)), limit=", ".join(SUITES))
    plan = suite.whole(only or SUITES)
    with present.counting(suite.planned(plan), "sessions") as ended:
        return figures(asyncio.run(suite.run(plan, ended)))


def _as_root() -> None:
    if os.geteuid() != 0:
        raise HostUnsuitable("the daemons of scenarios and AgentDojo need root", remedy="Run this as root.")
