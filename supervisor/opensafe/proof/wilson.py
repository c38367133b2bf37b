"""The interval of a rate, without which a rate says little.

Wilson's score interval without continuity correction: E. B. Wilson, J. Am. Stat. Assoc. 22 (1927) 209-212; method 3
of R. G. Newcombe, Statistics in Medicine 17 (1998) 857-872. It stays within [0, 1] and is honest at 0 and n, where
the usual interval has no width.
"""

import math
from typing import Final

import msgspec

#: The standard normal's 97.5th percentile: two-sided 95 %.
Z95: Final = 1.959963984540054


def wilson(hits: int, of: int, z: float = Z95) -> tuple[float, float]:
    """Lower and upper bound of the share behind `hits` of `of`. Of nothing nothing is known: (0, 1)."""
    if not 0 <= hits <= of:
        raise ValueError(f"{hits} of {of} is no share")
    if of == 0:
        return 0.0, 1.0
    share, z2 = hits / of, z * z
    centre = share + z2 / (2 * of)
    spread = z * math.sqrt((share * (1 - share) + z2 / (4 * of)) / of)
    scale = 1 + z2 / of
    low = 0.0 if hits == 0 else (centre - spread) / scale
    high = 1.0 if hits == of else (centre + spread) / scale
    return low, high


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """`hits` of `of`, as a rate with its 95 % interval; 0 of nothing."""

    hits: int
    of: int
    rate: float
    low: float
    high: float


def share(hits: int, of: int) -> Share:
    """The rate and its interval."""
    low, high = wilson(hits, of)
    return Share(hits=hits, of=of, rate=hits / of if of else 0.0, low=low, high=high)
