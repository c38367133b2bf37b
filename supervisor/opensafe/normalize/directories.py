"""The directories that may be current: few, or not known."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from opensafe.errors import RequestError

from .paths import is_stream, resolve
from .word import Word

_MAX: Final = 8
_OPTIONS: Final = re.compile(r"-[LPe@]+|--")


def join(first: Iterable[str] | None, second: Iterable[str] | None) -> tuple[str, ...] | None:
    """Those of both, each once; None where one is not known or there are too many."""
    if first is None or second is None:
        return None
    joined = tuple(dict.fromkeys((*first, *second)))
    return joined if len(joined) <= _MAX else None


class Directories:
    """Those that may be current `now`, None once they can't be told; `if_ok`: those if the last command succeeded."""

    def __init__(self, cwd: str) -> None:
        self.now: tuple[str, ...] | None = (cwd,)
        self.if_ok: tuple[str, ...] | None = self.now
        self._pushed: list[tuple[str, ...]] = []

    @property
    def place(self) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
        """Both, to come back to."""
        return self.now, self.if_ok

    @place.setter
    def place(self, place: tuple[tuple[str, ...] | None, tuple[str, ...] | None]) -> None:
        self.now, self.if_ok = place

    @property
    def pushed(self) -> int:
        """How many directories `pushd` put away."""
        return len(self._pushed)

    def forget(self, pushed: int) -> None:
        """Behind code that may or may not have run: what it pushed or popped is not known."""
        if len(self._pushed) != pushed:
            self._pushed = []

    def change(self, program: str, words: Sequence[Word], home: Callable[[], Word | None], *, repeats: bool) -> None:
        """Follow `cd`, `pushd`, `popd` or `dirs`. home: what HOME holds. repeats: in a loop."""
        operands = [word for word in words[1:] if not _OPTIONS.fullmatch(word.text)]
        moved: tuple[str, ...] | None
        if program == "dirs":
            return
        if program == "popd" and not words[1:] and self._pushed:
            self.if_ok = self.now = self._pushed.pop()
            return
        if program == "popd" or (program == "pushd" and not operands):
            moved, self._pushed = None, []
        elif not operands:
            moved = self.moved(home() or Word("~"))
        else:
            moved = None if operands[0].text[:1] in ("-", "+") or len(operands) > 1 else self.moved(operands[0])
        if program == "pushd" and not repeats and self.now is not None:
            self._pushed.append(self.now)
        self.if_ok = moved
        self.now = join(self.now, moved)

    def moved(self, word: Word) -> tuple[str, ...] | None:
        """Where a change to `word` leads; None where that is not known."""
        text = word.fixed()
        if text is None or not text or text.startswith("~"):
            return None
        if self.now is None and text[0] != "/":
            return None
        try:
            return join((), [resolve(text, cwd) for cwd in self.now or ("/",)])
        except RequestError:
            return None

    def paths(self, words: Iterable[Word]) -> list[str]:
        """The files that known words name, from every directory that may be current."""
        found: list[str] = []
        for word in words:
            for cwd in self.now or ():
                if word.text and word.known:
                    try:
                        found.append(resolve(word.text, cwd))
                    except RequestError:
                        continue
        return [path for path in found if not is_stream(path)]
