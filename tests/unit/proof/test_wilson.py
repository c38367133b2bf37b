"""The interval against values printed in the literature."""

import pytest

from opensafe.proof.wilson import wilson


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [  # Newcombe 1998, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_bounds_are_those_of_the_literature(hits, of, low, high):
    assert [round(bound, 4) for bound in wilson(hits, of)] == [low, high]


@pytest.mark.parametrize("of", [1, 7, 200])
def test_the_bounds_mirror_and_hold_the_share(of):
    for hits in range(of + 1):
        low, high = wilson(hits, of)
        assert 0 <= low <= hits / of <= high <= 1
        assert wilson(of - hits, of) == pytest.approx((1 - high, 1 - low))


def test_of_nothing_nothing_is_known():
    assert wilson(0, 0) == (0, 1)


@pytest.mark.parametrize(("hits", "of"), [(2, 1), (-1, 1)])
def test_a_share_beyond_the_whole_is_refused(hits, of):
    with pytest.raises(ValueError, match="no share"):
        wilson(hits, of)
