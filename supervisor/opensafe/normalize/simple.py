"""A simple command as the shell's grammar knows it."""

from collections.abc import Sequence
from typing import NamedTuple

from .word import Word


class Simple(NamedTuple):
    """A simple command as written: words, assignments before them, redirections, where it stands."""

    words: Sequence[Word]
    assignments: dict[str, Word] = {}  # noqa: RUF012  never changed: copied where something is added
    redirects: Sequence[tuple[str, int | None, Word | None]] = ()
    position: str = "top"
    via: tuple[str, ...] = ()
    opaque: bool = False


def runs_in_subscript(text: str) -> bool:
    """Whether arithmetic on `text` may run a command: `a[$(…)]`."""
    _, bracket, after = text.partition("[")
    return bool(bracket) and ("$(" in after or "`" in after)
