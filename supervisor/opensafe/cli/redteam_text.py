"""What the red team found, in lines for people, and the parts of a summary that two sets have."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # judging brings the engine into the process, AgentDojo pandas and more
    from opensafe.proof.agentdojo.figures import Figures as AgentDojoFigures
    from opensafe.proof.redteam import Figures
    from opensafe.proof.scenarios.figures import FamilyFigures
    from opensafe.proof.scenarios.figures import Figures as ScenarioFigures


def half(name: str, figures: "Figures", *, lines: bool) -> Iterator[str]:
    """A half of the single calls. `lines`: the misses too, which of the held-out half are for whoever asks for it."""
    if not figures.malicious + figures.benign:
        yield f"{name}: empty; no round is held out, so there is no figure"
        return
    yield (
        f"{name}: {figures.block_rate:.2%} of {figures.malicious} malicious calls stopped by the right rule "
        f"[{figures.block_rate_low:.2%}, {figures.block_rate_high:.2%}] "
        f"(blocked {figures.blocked_share:.1%}, for review {figures.review_share:.1%})"
    )
    yield (
        f"{name}: {figures.false_block_rate:.2%} of {figures.benign} benign calls stopped "
        f"[{figures.false_block_rate_low:.2%}, {figures.false_block_rate_high:.2%}]; "
        f"{figures.reviewed_as_expected} of {figures.reviewed} honest calls for review went there"
    )
    if not lines:
        return
    for rule, of in figures.rules.items():
        if of.stopped < of.malicious:
            yield f"  {rule}: {of.stopped} of {of.malicious}"
    for miss in figures.misses:
        rules = ", ".join(miss.rules)
        yield f"  {miss.kind} {miss.id}: {miss.expected} by {miss.expected_rules[0]}, got {miss.got} by {rules}"


def scenarios_summary(found: "ScenarioFigures") -> dict[str, Any]:
    """Flat."""
    stopped, false = found.all.stopped, found.all.falsely_stopped
    return {
        "scenarios": stopped.of,
        "scenarios_block_rate": stopped.rate,
        "scenarios_block_rate_low": stopped.low,
        "scenarios_block_rate_high": stopped.high,
        "scenarios_false_block_rate": false.rate,
        "scenarios_false_block_rate_low": false.low,
        "scenarios_false_block_rate_high": false.high,
        "not_reached": found.not_reached,
    }


def scenarios(found: "ScenarioFigures") -> Iterator[str]:
    """All of them, each family, and each that is not as it should be."""
    by_name: dict[str, FamilyFigures] = {"scenarios": found.all} | {
        str(family): one for family, one in found.families.items()
    }
    for name, one in by_name.items():
        yield (
            f"{name}: {one.stopped.hits} of {one.stopped.of} attacks stopped "
            f"[{one.stopped.low:.1%}, {one.stopped.high:.1%}], {one.falsely_stopped.hits} of {one.falsely_stopped.of} "
            f"twins stopped [{one.falsely_stopped.low:.1%}, {one.falsely_stopped.high:.1%}]"
        )
    yield from (f"  {line.id}: {line.why or line.rules}" for line in found.lines if not (line.stopped and line.honest))


def agentdojo_summary(found: "AgentDojoFigures") -> dict[str, Any]:
    """Flat. unreviewed: with nobody to approve; ungated: without the daemon."""
    from opensafe.proof.agentdojo.figures import MIN_KEPT
    from opensafe.proof.agentdojo.suite import Way

    ways = found.all.ways
    approved, alone, unguarded = ways[Way.APPROVER], ways[Way.ALONE], ways[Way.OPEN]
    return {
        "injected": approved.attacks.of,
        "attack_success_rate": approved.attacks.rate,
        "attack_success_rate_low": approved.attacks.low,
        "attack_success_rate_high": approved.attacks.high,
        "attack_success_rate_unreviewed": alone.attacks.rate,
        "attack_success_rate_ungated": unguarded.attacks.rate,
        "utility": approved.kept.rate,
        "utility_low": approved.kept.low,
        "utility_high": approved.kept.high,
        "utility_unreviewed": alone.kept.rate,
        "utility_ungated": unguarded.tasks.rate,
        "void": approved.void,
        "void_unreviewed": alone.void,
        "void_suites": ", ".join(name for name, one in found.suites.items() if one.ways[Way.APPROVER].void),
        "goal_utility": MIN_KEPT,
    }


def agentdojo(found: "AgentDojoFigures") -> Iterator[str]:
    """All suites and each, each way."""
    for name, suite in {"agentdojo": found.all, **found.suites}.items():
        for way, one in suite.ways.items():
            yield (
                f"{name}, {way}: {one.attacks.hits} of {one.attacks.of} attacks reached their goal "
                f"({one.attacks.rate:.1%} [{one.attacks.low:.1%}, {one.attacks.high:.1%}]); {one.kept.hits} of "
                f"{one.kept.of} tasks kept ({one.kept.rate:.1%} [{one.kept.low:.1%}, {one.kept.high:.1%}])"
                f"{', VOID' if one.void else ''}; under attack {one.under_attack.rate:.1%} done"
            )
