"""The short form of the proof: each target runs, reaches what it must and finds nothing; two of them see their faults.

The long form is `opensafe fuzz run` and `opensafe fuzz mutants`.
"""

import pytest

from opensafe.proof.fuzzing import catalogue, killing, running

pytest.importorskip("atheris", reason="opensafe[fuzz] is not installed")

RUNS = 400


@pytest.mark.parametrize("located", catalogue.targets(), ids=lambda located: located.target.id)
def test_a_short_run_reaches_its_floor_and_breaks_nothing(located):
    done = running.run(located, runs=RUNS, seconds=60, seed=1, corpus=False)
    assert done.finding is None
    assert done.vacuous == ""


@pytest.mark.parametrize(
    ("target", "mutant"),
    [(name, mutant.id) for name in ("F5", "F13") for mutant in catalogue.target(name).target.mutants],
)
def test_a_fault_put_in_on_purpose_is_found(target, mutant):
    located = catalogue.target(target)
    (fault,) = (one for one in located.target.mutants if one.id == mutant)
    assert killing.kill(located, fault).why == ""
