"""The seeds and the kept inputs of every target, run as they are: no atheris, no coverage."""

import pytest

from opensafe.proof import mutants
from opensafe.proof.fuzzing import catalogue

TARGETS = catalogue.targets()


@pytest.mark.parametrize("located", TARGETS, ids=lambda located: located.target.id)
def test_every_invariant_holds_for_what_is_kept(located, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inputs = [b"", *located.target.seeds(), *located.kept()]
    try:
        for data in inputs:
            located.target.one(data)
    finally:
        located.target.close()
    assert len(inputs) > 5


@pytest.mark.parametrize("located", TARGETS, ids=lambda located: located.target.id)
def test_a_target_has_mutants_of_the_code_as_it_is(located):
    assert len({mutant.id for mutant in located.target.mutants}) >= 3
    for mutant in located.target.mutants:
        mutants.check(mutant)


@pytest.mark.parametrize("located", TARGETS, ids=lambda located: located.target.id)
def test_what_is_kept_is_small(located):
    sizes = [len(data) for data in located.kept()]
    assert sum(sizes) <= 1 << 17
    assert len(sizes) <= 200


def test_targets_have_numbers_of_their_own():
    ids = [located.target.id for located in TARGETS]
    assert len(set(ids)) == len(ids)
