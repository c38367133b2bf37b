"""The texts of files, by path, as far as they are known: each file's possible ones, within bounds.

A file that is written over may hold what stood there before as well, as the command may not run or fail. So a path has
several texts, each of which is looked at by itself: put together, a function of one would hide a command of the next.
What does not fit is no longer known, and whoever keeps something here is told.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from opensafe.model.written import Written

from .paths import is_pattern, may_match

#: Characters of one file's text.
MAX_TEXT: Final = 64 * 1024
_MAX_FILES: Final = 256  # whose text is kept: beyond, no file that is run is known
MAX_TEXTS: Final = 8  # of one file
_MAX_KEPT: Final = 1024 * 1024  # characters of all of them
_MAX_COMPARED: Final = 256 * 1024  # names that are looked through, for patterns and directories


class Kept:
    """Texts by path. `crowded` once there are more files than are kept, or more patterns than are looked at.

    A path that is written may be a pattern itself: it stands for each file that it may have named.
    """

    __slots__ = ("_before", "_compared", "_places", "_size", "_wild", "crowded", "last", "recalled", "texts")

    def __init__(self, before: Written) -> None:
        self.texts: dict[str, tuple[str, ...]] = {}
        #: What each file holds once all was written, None where that is not certain.
        self.last: dict[str, str | None] = {}
        self._before = before.texts
        self._wild = list(before.wild)
        self._places: set[str] = set()
        self._size = self._compared = 0
        self.crowded = self.recalled = before.crowded

    def of(self, path: str) -> tuple[str, ...]:
        """What a file may hold; of a pattern, what any of its files may."""
        if not is_pattern(path):
            known = [path, *self.wild(path)] if self._wild else [path]
        else:
            known = self.matching(path, chain(self.texts, self._before))
        if known == [path]:
            return self._of(path)
        return tuple(dict.fromkeys([text for one in known for text in self._of(one)]))

    def writes(self, paths: Iterable[str]) -> None:
        """Something is written there, known or not."""
        self._wild += [path for path in paths if is_pattern(path) and path not in self._wild]

    def wild(self, path: str) -> list[str]:
        """The patterns that were written into and may have named the file; of a pattern that is run, all of them."""
        if not self._wild or is_pattern(path):
            return self._wild
        return [one for one in self._wild if may_match(one, path)] if self._looks(len(self._wild)) else []

    def recalls(self, path: str) -> bool:
        """Whether what the file holds, or a pattern's files, was written by calls before and not by this one."""
        own = self.matching(path, self.texts) if is_pattern(path) else [path, *self.wild(path)]
        return bool(self._before) and self.texts.keys().isdisjoint(own)

    def hides(self, path: str) -> bool:
        """Whether a call before wrote the file, or one of a pattern's, with what is not known."""
        if not self._before:
            return False
        known = self.matching(path, self._before) if is_pattern(path) else (path, *self.wild(path))
        hidden = any(self._before.get(one) == () for one in known)
        self.recalled |= hidden
        return hidden

    def _of(self, path: str) -> tuple[str, ...]:
        own = self.texts.get(path)
        if own is not None:
            return own
        before = self._before.get(path, ())
        self.recalled |= bool(before)
        return before

    def matching(self, pattern: str, paths: Iterable[str]) -> list[str]:
        """Those of the paths that a pattern may name; those that are patterns themselves all count."""
        paths = list(paths)
        if not self._looks(len(paths)):
            return []
        return [path for path in paths if may_match(pattern, path) or (self._wild and is_pattern(path))]

    def _looks(self, names: int) -> bool:
        """Whether so many names may still be looked through."""
        self._compared += names
        self.crowded |= self._compared > _MAX_COMPARED
        return self._compared <= _MAX_COMPARED

    def beneath(self, place: str) -> list[str]:
        """The files that lie in a directory or below it."""
        if self._before and self._looks(len(self._before)):
            return [path for path in {**self._before, **self.texts} if path.startswith(f"{place}/")]
        return [path for path in self.texts if path.startswith(f"{place}/")] if place in self._places else []

    def put(self, path: str, texts: Sequence[str], *, more: bool, certain: bool = True) -> bool:
        """Write one of the texts into a file, or append it to `more`; whether all that it may hold is known still.

        certain: the file is the one that is written, if the command does its work.
        """
        before = self.of(path) if self._wild and not is_pattern(path) else self._of(path)
        if path not in self.texts:  # of what calls before may have left the newest count, as what they hid is none
            before = before[-max(1, MAX_TEXTS // max(1, len(texts)) if more else MAX_TEXTS - len(texts)) :]
        held = self.last.get(path) if path in self.last else before[0] if len(before) == 1 else None
        last = texts[0] if certain and len(texts) == 1 else None
        if more and last is not None:
            last = held + last if held is not None else None
        self.last[path] = last if last is not None and len(last) <= MAX_TEXT else None
        own = self.texts.get(path, ())
        if not own and len(self.texts) >= _MAX_FILES and any(texts):
            self.crowded = True
            return True
        if not more:
            after = dict.fromkeys([*before, *filter(None, texts)])
        elif len(before) * len(texts) <= MAX_TEXTS:
            whole = [old + new for old in before or ("",) for new in texts]
            # What was appended may be missing, and a last line that it went on with is another one without it.
            after = dict.fromkeys([*whole, *(old for old in before if old[-1:] not in ("", "\n"))])
        else:
            return False
        size = self._size + sum(map(len, after)) - sum(map(len, own))
        if len(after) > MAX_TEXTS or size > _MAX_KEPT or any(len(text) > MAX_TEXT for text in after):
            return False
        if any(after):
            self.texts[path], self._size = tuple(after), size
            while path := path.rpartition("/")[0]:
                self._places.add(path)
        return True
