"""The directories that may be current: few, or not known."""

from collections.abc import Iterable
from typing import Final

_MAX: Final = 8


def join(first: Iterable[str] | None, second: Iterable[str] | None) -> tuple[str, ...] | None:
    """Those of both, each once; None where one is not known or there are too many."""
    if first is None or second is None:
        return None
    joined = tuple(dict.fromkeys((*first, *second)))
    return joined if len(joined) <= _MAX else None
