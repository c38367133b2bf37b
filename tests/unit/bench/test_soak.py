"""What counts as flat."""

import msgspec
import pytest

from opensafe.bench.soak import Look, Measured

FIRST = Look(
    evaluations=0, reloads=0, seconds=0, rss=80_000_000, preparer=60_000_000, guest=4_000_000, descriptors=12, threads=2
)


def measured(**changed: int) -> Measured:
    return Measured(looks=(FIRST, FIRST, msgspec.structs.replace(FIRST, **changed)), wrong=0)


def test_growth_is_that_of_the_process_that_grew_more() -> None:
    assert measured(rss=81_000_000, preparer=63_000_000).growth == 3_000_000
    assert measured(rss=82_000_000, preparer=59_000_000).growth == 2_000_000


def test_memory_may_grow_up_to_the_limit() -> None:
    assert measured(rss=81_000_000).flat(1_000_000)
    assert not measured(rss=81_000_001).flat(1_000_000)


@pytest.mark.parametrize("name", ["guest", "descriptors", "threads"])
def test_nothing_else_may_grow_at_all(name: str) -> None:
    assert not measured(**{name: getattr(FIRST, name) + 1}).flat(1_000_000)
    assert measured(**{name: getattr(FIRST, name) - 1}).flat(1_000_000)
