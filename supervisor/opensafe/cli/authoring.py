"""`opensafe policy build|test|lint`: what an author of rules does, without a daemon and without root."""

import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from opensafe.config import DEFAULT_PREFIX

from . import options

if TYPE_CHECKING:
    from opensafe.policy.lint import Finding
    from opensafe.policy.sources import Sources, Tested
    from opensafe.proof.redteam import Figures

Policies = Annotated[
    pathlib.Path, typer.Option("--policies", metavar="DIR", help="The policies: opensafe/, data/, schemas/, cases/.")
]
Opa = Annotated[pathlib.Path, typer.Option("--opa", metavar="FILE", help="The policy compiler.")]

POLICIES = pathlib.Path("policies")
OUT = pathlib.Path("build/policy.bundle.tar.gz")
OPA = pathlib.Path(DEFAULT_PREFIX, "bin/opa")
#: Places of a list that is printed for people.
_SHOWN = 20


def build(
    policies: Policies = POLICIES,
    out: Annotated[pathlib.Path, typer.Option("--out", "-o", metavar="FILE", help="The bundle to write.")] = OUT,
    number: Annotated[
        int, typer.Option("--number", min=1, help="The revision's number; a daemon never goes to a lower one.")
    ] = 1,
    key: Annotated[
        pathlib.Path | None, typer.Option("--key", metavar="FILE", help="The private key to sign with.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Build again when the sources change, under the next number, until ended.")
    ] = False,
    activate: Annotated[
        bool,
        typer.Option("--activate", help="Put each build in force, under a number above the daemon's. Needs --key."),
    ] = False,
    principal: options.Principal = None,
    opa: Opa = OPA,
    json: options.Json = False,
) -> int:
    """Check, test, compile and pack the policies, and sign the bundle where a key is given.

    Stops at the first step that fails and then writes nothing. The same sources give the same bytes.
    """
    from opensafe.errors import InvalidArgument, OpenSafeError

    from . import bundles, exits, present
    from .watching import changes

    if activate and key is None:
        raise InvalidArgument("a bundle that is not signed can't be put in force", remedy="Name a private key: --key.")

    def once() -> int:
        nonlocal number
        if activate:
            number = max(number, bundles.number_in_force(principal) + 1)
        _build(opa, policies, out, number, key, json)
        number += 1
        return bundles.activate(out, principal, json) if activate else exits.Exit.OK

    if not watch:
        return once()
    for _ in changes(policies):
        try:
            once()
        except OpenSafeError as error:  # the next change may mend it
            present.say(str(error))
    return exits.Exit.OK


def _build(
    opa: pathlib.Path, policies: pathlib.Path, out: pathlib.Path, number: int, key: pathlib.Path | None, json: bool
) -> None:
    import sys

    from opensafe.policy.build import build as build_bundle
    from opensafe.policy.keys import read_private

    from . import present
    from .report import encode, report

    private = read_private(key) if key else None
    with present.steps() as step:
        bundle = build_bundle(opa, policies, out, number=number, key=private, step=step)
    if json:
        summary = {
            "bundle_revision": bundle.revision,
            "bundle_digest": bundle.digest,
            "bundle_bytes": out.stat().st_size,
            "key": bundle.key,
            "rules": len({note.id for note in bundle.rules}),
        }
        present.raw(encode(report("policy-build", summary, {"file": str(out), "rules": bundle.rules})))
    else:
        signed = f"signed by {bundle.key}" if bundle.key else "NOT SIGNED: no daemon loads it"
        present.out(f"{out}: revision {bundle.revision}, {signed}, sha256 {bundle.digest}")
    sys.stdout.flush()  # somebody may be waiting at a pipe


def lint(policies: Policies = POLICIES, opa: Opa = OPA, json: options.Json = False) -> int:
    """Find what is wrong in the sources: format, types, METADATA, and rules without the tests that they need."""
    from opensafe.policy.sources import Sources

    from . import exits, present
    from .report import encode, report

    sources = Sources(opa, policies)
    findings, warnings = sources.findings(), sources.warnings()
    rules = 0 if findings else len({note.id for note in sources.catalogue()})
    if json:
        summary = {"ok": not findings, "findings": len(findings), "rules": rules}
        present.raw(encode(report("policy-lint", summary, {"findings": findings, "warnings": warnings})))
    else:
        for warning in warnings:
            place, remedy = _finding_lines(warning)
            present.out(f"warning: {place}")
            present.out(remedy)
        for finding in findings:
            for line in _finding_lines(finding):
                present.out(line)
        present.out(f"NOT CLEAN: {len(findings)} findings" if findings else f"clean: {rules} rules")
    return exits.Exit.GOAL_MISSED if findings else exits.Exit.OK


def check(policies: Policies = POLICIES, opa: Opa = OPA, json: options.Json = False) -> int:
    """Run the rules' tests with coverage, then judge every case of the data set with them.

    Ends with 1 where a test fails, less than 95 % of lines are covered, or the data set's rates miss their goals.
    """
    from opensafe.policy.build import COVERAGE
    from opensafe.policy.sources import Sources

    from . import exits, present
    from .report import encode, report

    sources = Sources(opa, policies)
    rules = 0
    by_half: dict[str, Figures] = {}
    with present.steps() as step:
        step("tests and coverage")
        tested = sources.test()
        if not tested.failures:
            step("data set")
            rules, by_half = _data_set(sources, policies)
    headline = by_half.get("test")
    ok = not tested.failures and tested.coverage >= COVERAGE and (headline is None or headline.ok)
    if json:
        summary = {
            "ok": ok,
            "rules": rules,
            "tests": tested.tests,
            "tests_failed": len(tested.failures),
            "coverage": round(tested.coverage, 2),
            "goal_coverage": COVERAGE,
            "cases": sum(one.malicious + one.benign + one.reviewed for one in by_half.values()),
        }
        if headline:
            summary |= {"block_rate": headline.block_rate, "false_block_rate": headline.false_block_rate}
        present.raw(encode(report("policy-test", summary, {"rego": tested, "data_set": by_half})))
    else:
        _print_tests(tested, rules)
        for half, figures in by_half.items():
            _print_cases(half, figures)
        present.out("passed" if ok else "NOT PASSED")
    return exits.Exit.OK if ok else exits.Exit.GOAL_MISSED


def _data_set(sources: "Sources", policies: pathlib.Path) -> "tuple[int, dict[str, Figures]]":
    """How many rules there are, and the figures of each half; none where the tree holds no data set."""
    from opensafe.policy.build import assemble
    from opensafe.policy.bundle import check
    from opensafe.proof.cases import MANIFEST, Half, load_cases
    from opensafe.proof.redteam import figures, run

    bundle = check(assemble(sources, policies, 1))
    rules = len({note.id for note in bundle.rules})
    cases = policies / "cases"
    if not (cases / MANIFEST).is_file():
        return rules, {}
    judged = run(bundle, load_cases(cases))
    return rules, {half: figures(row for row in judged if row.entry.half is half) for half in Half}


def _finding_lines(finding: "Finding") -> tuple[str, str]:
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    return f"{place}: {finding.message}", f"  remedy: {finding.remedy}"


def _print_tests(tested: "Tested", rules: int) -> None:
    from . import present

    for failure in tested.failures:
        present.out(f"{failure.file}:{failure.line}: {failure.name} failed {failure.error}".rstrip())
    present.out(f"tests     {tested.tests}, {len(tested.failures)} failed")
    if tested.failures:
        return
    present.out(f"coverage  {tested.coverage:.1f} % of lines")
    for gap in tested.gaps[:_SHOWN]:
        present.out(f"  not covered: {gap}")
    present.out(f"rules     {rules}")


def _print_cases(half: str, figures: "Figures") -> None:
    """The rates, and what missed in the half that rules may be written against: the other one stays unread."""
    from . import present

    if not figures.malicious + figures.benign:
        present.out(f"cases     none in {half}: no round is held out, so there is no figure")
        return
    present.out(
        f"malicious {figures.malicious} ({half}): {figures.block_rate:.2%} stopped by the right rule"
        f" [{figures.block_rate_low:.2%}, {figures.block_rate_high:.2%}]"
    )
    present.out(
        f"benign    {figures.benign} ({half}): {figures.false_block_rate:.2%} stopped"
        f" [{figures.false_block_rate_low:.2%}, {figures.false_block_rate_high:.2%}]"
    )
    misses = figures.misses if half == "dev" else ()
    for miss in misses[:_SHOWN]:
        present.out(f"  {miss.id}: expected {miss.expected} by {' or '.join(miss.expected_rules)}")
        present.out(f"    got {miss.got} by {', '.join(miss.rules)}")
    if len(misses) > _SHOWN:
        present.out(f"  and {len(misses) - _SHOWN} more (--json has all)")
