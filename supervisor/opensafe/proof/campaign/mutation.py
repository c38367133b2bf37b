"""A mutation of the bytes that runs are drawn from.

A byte is a decision, and which one depends on how many went before it. So most changes replace bytes in their places,
which leaves the calls before and after them as they are; some take a stretch of a run to another place, whose calls it
then has.
"""

import random
from typing import Final

_STRETCH: Final = 48
_CHANGES: Final = 4


def mutate(data: bytes, longest: int, seed: int) -> bytes:
    """Data that is a little different, at most so long. The same seed changes the same data alike."""
    drawn = random.Random(seed)  # noqa: S311 - reproducible is the point
    changed = bytearray(data or bytes(1))
    for _ in range(1 + drawn.randrange(_CHANGES)):
        at = drawn.randrange(len(changed))
        match drawn.randrange(8):
            case 0 | 1 | 2:
                changed[at] = drawn.randrange(256)
            case 3:
                changed[at] ^= 1 << drawn.randrange(8)
            case 4:
                changed[at] = (changed[at] + drawn.choice((-1, 1))) % 256
            case 5:
                stretch = changed[at : at + 1 + drawn.randrange(_STRETCH)]
                to = drawn.randrange(len(changed))
                changed[to : to + len(stretch)] = stretch
            case 6:
                changed[at : at + 1 + drawn.randrange(_STRETCH)] = b""
            case _:
                changed += drawn.randbytes(1 + drawn.randrange(_STRETCH))
        if not changed:
            changed = bytearray(1)
    return bytes(changed[:longest])
