"""Remember what was derived from an immutable object, by the object's identity.

A bundle's tables are frozen but hold dicts, so they can't be keys of a cache. A handful is alive at once (the
active bundle, a candidate, a shadow): a linear look by `is` over at most four is the whole cache.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

_KEPT: Final = 4

K = TypeVar("K")
V = TypeVar("V")


class DerivedOnce(Generic[K, V]):
    """`derived(key)`, computed once per living key object. Safe under threads: the tuple is replaced whole."""

    __slots__ = ("_derive", "_kept")

    def __init__(self, derive: Callable[[K], V]) -> None:
        self._derive = derive
        self._kept: tuple[tuple[K, V], ...] = ()

    def __call__(self, key: K) -> V:
        for known, value in self._kept:
            if known is key:
                return value
        value = self._derive(key)
        self._kept = ((key, value), *self._kept[: _KEPT - 1])
        return value
