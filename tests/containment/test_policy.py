"""The policy boundary's suite in short: every row has its probe, some of them run, and the suite itself can fail."""

import pytest
import pytest_asyncio

from opensafe.proof.escape.policy import code, forms, shell, steps, surroundings
from opensafe.proof.escape.policy.aim import row
from opensafe.proof.escape.policy.probes import PROBES
from opensafe.proof.escape.policy.running import run
from opensafe.proof.escape.policy.shot import bash
from opensafe.proof.escape.policy.weak import DAEMONS
from opensafe.proof.escape.probe import Boundary, Verdict
from opensafe.proof.escape.report import summary
from opensafe.proof.mutants import planted

#: The ids of the catalogue's rows; of PE-16 what is done in one call, in two, and with a copy.
ROWS = {
    *("PE-01", "PE-02", "PE-03", "PE-04", "PE-05", "PE-07", "PE-08", "PE-09", "PE-10", "PE-12", "PE-14", "PE-15"),
    *("PE-16", "PE-16b", "PE-16c", "PE-18", "PE-19", "PE-20", "PE-21", "PE-22", "PE-24", "PE-25", "PE-26", "PE-27"),
}
TABLES = {
    "quotes": shell.QUOTES,
    "expansions": shell.EXPANSIONS,
    "substitutions": shell.SUBSTITUTIONS,
    "separators": shell.SEPARATORS,
    "look-alikes": shell.LOOKALIKES,
    "decoded": code.DECODED,
    "interpreters": code.INTERPRETERS,
    "fed": code.FED,
    "names": surroundings.NAMES,
    "variables": surroundings.VARIABLES,
    "odd JSON": forms.ODD_JSON,
    "trusted": forms.TRUSTED,
    "tools": forms.NAMES,
    "undefined": forms.UNDEFINED,
    "encoded": forms.ENCODED,
    "at once": steps.AT_ONCE,
    "in turn": steps.IN_TURN,
    "copied": steps.COPIED,
    "injected": steps.INJECTED,
    "patterns": steps.PATTERNS,
}
SHORT = ("PE-01", "PE-18", "PE-20", "PE-21")
#: With the raw text looked at instead of the commands, the same calls get through where they have to be stopped.
OPEN = row("PE-97", "a daemon that lets it through", shell.QUOTES[:2], (), at="raw", weak="raw", control="the same")
#: `true` has no effect anywhere.
IDLE = row("PE-98", "a control without effect", (bash("mount @M"),), (), weak="raw", control="none")
TWIN = row(
    "PE-99", "a twin that is not allowed", shell.QUOTES[:1], (bash("mount @M"),), weak="raw", control="the raw text"
)


def test_every_row_has_its_probe():
    assert {probe.id for probe in PROBES} == ROWS
    assert len(PROBES) == len(ROWS)
    assert {probe.boundary for probe in PROBES} == {Boundary.POLICY}
    assert not [probe.id for probe in PROBES if probe.limit]


@pytest.mark.parametrize("name", TABLES)
def test_a_row_has_variants_that_all_differ(name):
    filled = [shot.filled("n0") for shot in TABLES[name]]
    assert 5 <= len(filled) <= 40
    assert len({str(shot) for shot in filled}) == len(filled)


@pytest.mark.parametrize("name", TABLES)
def test_most_of_a_row_has_a_control(name):
    bare = [shot for shot in TABLES[name] if shot.inert or shot.alone]
    assert len(bare) <= len(TABLES[name]) // 2


@pytest.mark.parametrize("name", [name for name in DAEMONS if name])
def test_the_faults_of_a_daemon_can_be_planted(name):
    with planted(*DAEMONS[name]) as source:
        assert (source / "opensafe").is_dir()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def results():
    probes = [probe for probe in PROBES if probe.id in SHORT]
    made = await run([*probes, OPEN, IDLE, TWIN], only_controls=False, done=lambda _: None)
    return {result.id: result for result in made}


@pytest.mark.root
@pytest.mark.runsc
@pytest.mark.timeout(300)
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("probe", SHORT)
async def test_a_probe_is_contained_and_its_control_gets_out(results, probe):
    result = results[probe]
    assert result.verdict is Verdict.CONTAINED, result.reason
    assert result.control_breached
    assert result.layer


@pytest.mark.root
@pytest.mark.runsc
@pytest.mark.timeout(300)
@pytest.mark.asyncio(loop_scope="module")
async def test_what_gets_through_is_a_breach(results):
    assert results["PE-97"].verdict is Verdict.BREACHED
    assert "its effect is there" in results["PE-97"].reason


@pytest.mark.root
@pytest.mark.runsc
@pytest.mark.timeout(300)
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("probe", ["PE-98", "PE-99"])
async def test_a_control_or_a_twin_without_effect_proves_nothing(results, probe):
    assert results[probe].verdict is Verdict.INCONCLUSIVE
    assert not summary(1, [results[probe]])["ok"]
