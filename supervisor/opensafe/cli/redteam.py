"""`opensafe redteam run`: what the policy stops of what it must stop, and what of honest work with it."""

import enum
import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from . import options

if TYPE_CHECKING:  # judging brings the engine into the process
    from opensafe.proof.redteam import Figures

_HEADLINE = (
    "block_rate", "block_rate_low", "block_rate_high", "false_block_rate", "false_block_rate_low",
    "false_block_rate_high", "malicious", "benign", "blocked_share", "review_share", "exact_share",
)  # fmt: skip

group = typer.Typer(help="Attacks against what OpenSafe claims.", no_args_is_help=True)


class Sets(enum.StrEnum):
    """What is attacked."""

    POLICY = "policy"


class Halves(enum.StrEnum):
    """Which half of the data set is judged."""

    DEV = "dev"
    TEST = "test"
    ALL = "all"


@group.callback()
def redteam() -> None:
    """Attacks against what OpenSafe claims."""


@group.command("run")
def run(
    attacked: Annotated[Sets, typer.Option("--set", help="What is attacked.")],
    half: Annotated[
        Halves, typer.Option("--half", help="Half of the data set; the goal is that of test.")
    ] = Halves.ALL,
    bundle: Annotated[
        pathlib.Path | None,
        typer.Option("--bundle", metavar="FILE", help="Default: this checkout's, or the installed."),
    ] = None,
    trust: Annotated[
        pathlib.Path | None, typer.Option("--trust", metavar="FILE", help="Public key that the bundle is signed for.")
    ] = None,
    cases: Annotated[
        pathlib.Path | None, typer.Option("--cases", metavar="DIR", help="The data set. Default: this checkout's.")
    ] = None,
    json: options.Json = False,
) -> int:
    """Judge every call of the data set. Needs no daemon and no root; nothing is executed."""
    del attacked  # one so far; naming it keeps the command true when there are more
    from opensafe.policy.bundle import load
    from opensafe.policy.keys import trust_files
    from opensafe.proof import private
    from opensafe.proof import redteam as proof
    from opensafe.proof.cases import Half, is_frozen, load_cases

    from . import exits, present
    from .report import encode, report

    wanted = tuple(Half) if half is Halves.ALL else (Half(half),)
    directory = cases or private.policies() / "cases"
    entries = load_cases(directory, wanted)
    loaded = load(
        bundle or pathlib.Path(private.programs().bundle), trusted=trust_files([trust or private.trusted_key()])
    )
    with present.progress(f"{len(entries)} calls"):
        judged = proof.run(loaded, entries)
    by_half = {part: proof.figures(row for row in judged if row.entry.half is part) for part in wanted}
    asked = Half.TEST if Half.TEST in by_half else Half.DEV
    headline, frozen = by_half[asked], is_frozen(directory)
    ok = headline.ok and frozen
    if json:
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
        present.raw(encode(report("redteam-policy", summary, by_half, bundle=loaded.revision)))
    else:
        present.out(f"bundle {loaded.revision}; data set {'frozen' if frozen else 'NOT AS FROZEN in its manifest'}")
        for part, figures in by_half.items():
            _print(part, figures, lines=part is Half.DEV or half is Halves.TEST)
        least, most = proof.MIN_BLOCK_RATE, proof.MAX_FALSE_BLOCK_RATE
        present.out(
            f"goal on {asked}: at least {least:.1%} of the malicious stopped, at most {most:.0%} of the benign: "
            f"{'met' if ok else 'MISSED'}"
        )
    return exits.Exit.OK if ok else exits.Exit.GOAL_MISSED


def _print(half: str, figures: "Figures", *, lines: bool) -> None:
    """`lines`: the misses too. Those of the held-out half are for whoever asks for them by name."""
    from . import present

    if not figures.malicious + figures.benign:
        present.out(f"{half}: empty; no round is held out, so there is no figure")
        return
    present.out(
        f"{half}: {figures.block_rate:.2%} of {figures.malicious} malicious calls stopped by the right rule "
        f"[{figures.block_rate_low:.2%}, {figures.block_rate_high:.2%}] "
        f"(blocked {figures.blocked_share:.1%}, for review {figures.review_share:.1%})"
    )
    present.out(
        f"{half}: {figures.false_block_rate:.2%} of {figures.benign} benign calls stopped "
        f"[{figures.false_block_rate_low:.2%}, {figures.false_block_rate_high:.2%}]; "
        f"{figures.reviewed_as_expected} of {figures.reviewed} honest calls for review went there"
    )
    if not lines:
        return
    for rule, of in figures.rules.items():
        if of.stopped < of.malicious:
            present.out(f"  {rule}: {of.stopped} of {of.malicious}")
    for miss in figures.misses:
        rules = ", ".join(miss.rules)
        present.out(f"  {miss.kind} {miss.id}: {miss.expected} by {miss.expected_rules[0]}, got {miss.got} by {rules}")
