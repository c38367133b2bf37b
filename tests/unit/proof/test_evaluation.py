"""Calls and sessions counted together, and the families of calls."""

import pathlib

import pytest

from opensafe.policy.archive import read_file, unpack
from opensafe.policy.catalogue import read_catalogue
from opensafe.policy.manifest import ALLOWED, RULES
from opensafe.proof import evaluation, families, private
from opensafe.proof.evaluation import Item
from opensafe.proof.scenarios.data import Family


def _items(bad, missed, good, falsely, **more):
    return [
        *[Item(id=f"m{n}", attack=True, group="g", rule="r", wrong=n < missed, **more) for n in range(bad)],
        *[Item(id=f"b{n}", attack=False, group="Bash", rule="r", wrong=n < falsely, **more) for n in range(good)],
    ]


@pytest.mark.parametrize(
    ("counts", "ok"),
    [
        ((220, 1, 420, 4), True),
        ((220, 2, 420, 0), False),
        ((220, 0, 420, 5), False),
        ((219, 0, 420, 0), False),
        ((220, 0, 419, 0), False),
    ],
)
def test_the_goals_hold_on_enough_of_both(counts, ok):
    found = evaluation.pooled(_items(*counts))
    assert found.ok is ok
    assert (len(found.missed), len(found.falsely)) == (counts[1], counts[3])
    summary = evaluation.summary(found)
    assert summary["block_rate_low"] <= summary["block_rate"] <= summary["block_rate_high"]
    assert found.families["g"].of == found.rules["r"].of == summary["malicious"]


def test_held_out_ids_are_counted_and_not_named():
    found = evaluation.pooled(_items(10, 2, 10, 3, held_out=True))
    assert (found.missed, found.falsely) == ((), ())
    assert (found.held_out_missed, found.held_out_falsely) == (2, 3)


def test_the_families_of_calls_are_those_of_the_sessions_and_one_more():
    members = unpack(read_file(pathlib.Path(private.programs().bundle)), ALLOWED)
    rules = [note.id for note in read_catalogue(members[RULES])]
    assert {families.family_of(rule) for rule in rules} == {*Family, families.EVASION}
    assert families.family_of("egress.bytes.budget") == Family.BUDGET
    assert families.family_of("egress.domain.allowlist") == Family.EXFILTRATION
    assert families.family_of("INVALID_ARGUMENT") == families.EVASION
