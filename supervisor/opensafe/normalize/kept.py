"""The texts of files, by path, as far as they are known: each file's possible ones, within bounds.

A file that is written over may hold what stood there before as well, as the command may not run or fail. So a path has
several texts, each of which is looked at by itself: put together, a function of one would hide a command of the next.
What does not fit is no longer known, and whoever keeps something here is told.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from .paths import may_match

#: Characters of one file's text.
MAX_TEXT: Final = 64 * 1024
_MAX_FILES: Final = 256  # whose text is kept: beyond, no file that is run is known
_MAX_TEXTS: Final = 8  # of one file
_MAX_KEPT: Final = 1024 * 1024  # characters of all of them
_MAX_COMPARED: Final = 64 * 1024  # names, with patterns that are run


def is_pattern(path: str) -> bool:
    """Whether a path that is run stands for several files."""
    return any(sign in path for sign in "*?[")


class Kept:
    """Texts by path. `crowded` once there are more files than are kept, or more patterns than are looked at."""

    __slots__ = ("_compared", "_places", "_size", "_texts", "crowded")

    def __init__(self) -> None:
        self._texts: dict[str, tuple[str, ...]] = {}
        self._places: set[str] = set()
        self._size = self._compared = 0
        self.crowded = False

    def __bool__(self) -> bool:
        return bool(self._texts)

    def of(self, path: str) -> tuple[str, ...]:
        """What a file may hold; of a pattern, what any of its files may."""
        if not is_pattern(path):
            return self._texts.get(path, ())
        return tuple(dict.fromkeys([text for known in self.matching(path, self._texts) for text in self._texts[known]]))

    def matching(self, pattern: str, paths: Iterable[str]) -> list[str]:
        """Those of the paths that a pattern may name."""
        if self._compared > _MAX_COMPARED:
            self.crowded = True
            return []
        paths = list(paths)
        self._compared += len(paths)
        return [path for path in paths if may_match(pattern, path)]

    def beneath(self, place: str) -> list[str]:
        """The files that lie in a directory or below it."""
        return [path for path in self._texts if path.startswith(f"{place}/")] if place in self._places else []

    def put(self, path: str, texts: Sequence[str], *, more: bool) -> bool:
        """Write texts into a file, or append them to `more`; whether all that it may hold is known still."""
        before = self._texts.get(path, ())
        if not before and len(self._texts) >= _MAX_FILES and any(texts):
            self.crowded = True
            return True
        if not more:
            after = dict.fromkeys([*before, *filter(None, texts)])
        elif len(before) * len(texts) <= _MAX_TEXTS:
            after = dict.fromkeys([old + new for old in before or ("",) for new in texts])
        else:
            return False
        size = self._size + sum(map(len, after)) - sum(map(len, before))
        if len(after) > _MAX_TEXTS or size > _MAX_KEPT or any(len(text) > MAX_TEXT for text in after):
            return False
        if any(after):
            self._texts[path], self._size = tuple(after), size
            while path := path.rpartition("/")[0]:
                self._places.add(path)
        return True
