"""What coverage found: the inputs kept for F12 in a checkout, which half of a campaign's runs are drawn from.

A campaign is known by their digest too, since without the same inputs the same seed is not the same runs.
"""

import functools
import hashlib
import random
from typing import Final

import msgspec

from opensafe.errors import InvalidArgument
from opensafe.proof.fuzzing.catalogue import DIRECTORY

from .mutation import mutate

#: Of the first byte: system calls with the filter and without, tool calls (fuzz/targets/f12_campaign.py).
WAYS: Final = 3
_TOOL_CALLS: Final = 2


class Kept(msgspec.Struct, frozen=True):
    """system_calls, tool_calls: bytes for the two generators. digest: of all; "" for none."""

    system_calls: tuple[bytes, ...] = ()
    tool_calls: tuple[bytes, ...] = ()
    digest: str = ""


@functools.cache
def kept() -> Kept:
    """Those of this checkout; none where there is no checkout."""
    inputs = [path.read_bytes() for path in sorted((DIRECTORY / "corpus/f12").glob("*"))]
    calls: list[bytes] = []
    tools: list[bytes] = []
    for data in filter(None, inputs):
        (tools if data[0] % WAYS == _TOOL_CALLS else calls).append(data[1:])
    digest = hashlib.sha256(b"".join(hashlib.sha256(data).digest() for data in inputs)).hexdigest() if inputs else ""
    return Kept(tuple(calls), tuple(tools), digest)


def of(digest: str) -> Kept:
    """Those that a campaign was begun with. Raises InvalidArgument where others are here."""
    if not digest:
        return Kept()
    found = kept()
    if found.digest != digest:
        raise InvalidArgument("the campaign was begun with other kept inputs", value=found.digest, limit=digest)
    return found


def data_of(seed: int, run: int, inputs: tuple[bytes, ...], longest: int) -> bytes:
    """The bytes of a campaign's run: drawn anew, or a mutation of what was kept."""
    drawn = random.Random(f"{seed}:{run}")  # noqa: S311 - reproducible is the point
    fresh = drawn.randbytes(longest)
    if not inputs or drawn.random() < 1 / 2:
        return fresh
    return mutate(drawn.choice(inputs), longest, drawn.getrandbits(64))
