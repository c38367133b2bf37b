"""Choices read from an input's bytes, so that a mutation of bytes is a mutation of what they choose.

It reads from the front and never ends: where no byte is left, each choice is the first one. So every input means
something, a shorter one means something simpler, and the same bytes mean the same anywhere.
"""

from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")


class Draw:
    """Reads choices from `data`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """Bytes that were not read yet."""
        return max(0, len(self._data) - self._at)

    def byte(self) -> int:
        """The next byte; 0 where none is left."""
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def word(self) -> int:
        """The next two bytes."""
        return self.byte() << 8 | self.byte()

    def number(self, least: int, most: int) -> int:
        """A number between the two, both included."""
        span, value = most - least + 1, 0
        for _ in range((span.bit_length() + 7) // 8):
            value = value << 8 | self.byte()
        return least + value % span

    def flag(self) -> bool:
        """Yes or no; no where nothing is left."""
        return bool(self.byte() & 1)

    def pick(self, of: Sequence[_T]) -> _T:
        """One of them."""
        return of[self.number(0, len(of) - 1)]

    def data(self, most: int) -> bytes:
        """Up to `most` bytes, their number said by the first."""
        size = min(self.number(0, most), self.left)
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self, most: int) -> str:
        """Up to `most` bytes as text; what is not UTF-8 stays in it as lone surrogates (PEP 383)."""
        return self.data(most).decode("utf-8", "surrogateescape")

    def rest(self) -> bytes:
        """All that is left."""
        taken, self._at = self._data[self._at :], len(self._data)
        return taken
