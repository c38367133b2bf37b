"""Escape campaigns that keep their progress in a directory: how far each has come.

What a campaign keeps is campaign.json, its settings, and batches.jsonl, a line for each batch that ended (`opensafe
fuzz campaign --resume DIR`). Both are read as anybody's files are: bounded, and left out where they are none.
"""

import os
import pathlib
from typing import Final

import msgspec

from .report_forms import Count
from .reports import REPORT_MAX, content_of

_SETTINGS: Final = "campaign.json"
_DONE: Final = "batches.jsonl"
_SETTINGS_MAX: Final = 4096
_LOOKED_AT: Final = 200
SHOWN_MAX: Final = 5


class _Settings(msgspec.Struct, frozen=True, kw_only=True):
    runs: Count
    seed: Count


class _Done(msgspec.Struct, frozen=True, kw_only=True):
    number: Count
    kind: str
    completed: Count
    sandboxes: Count = 0
    findings: tuple[msgspec.Raw, ...] = ()
    lost: tuple[int, ...] = ()


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far one has come. changed_us: when its last batch ended. raised: by oracles; inconclusive: runs."""

    name: str
    runs: int
    seed: int
    completed: int
    batches: int
    sandboxes: int
    raised: int
    inconclusive: int
    kinds: dict[str, int]
    changed_us: int

    @property
    def over(self) -> bool:
        """Whether all its runs are complete."""
        return self.completed >= self.runs


class Campaigns:
    """Those below a directory. It blocks; a campaign that did not go on is not read again."""

    def __init__(self, directory: pathlib.Path | None) -> None:
        self._directory = directory
        self._known: dict[str, tuple[tuple[int, int], Progress | None]] = {}

    def look(self) -> list[Progress]:
        """Those that are not over, the one that went on last first."""
        if self._directory is None:
            return []
        try:
            with os.scandir(self._directory) as entries:
                names = sorted(one.name for one in entries if one.is_dir(follow_symlinks=False))[-_LOOKED_AT:]
        except OSError:
            return []
        self._known = {name: found for name in names if (found := self._one(name)) is not None}
        open_ones = [one for _, one in self._known.values() if one is not None and not one.over]
        return sorted(open_ones, key=lambda one: -one.changed_us)[:SHOWN_MAX]

    def _one(self, name: str) -> tuple[tuple[int, int], Progress | None] | None:
        place, mark = pathlib.Path(self._directory or "", name), (0, 0)
        try:
            begun = (place / _SETTINGS).lstat()
            done = (place / _DONE).lstat() if (place / _DONE).exists() else begun
            mark = (done.st_size, done.st_mtime_ns)
            if name in self._known and self._known[name][0] == mark:
                return self._known[name]
            return mark, _progress(name, place, max(begun.st_mtime_ns, done.st_mtime_ns) // 1000)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError):
            return mark, None


def _progress(name: str, place: pathlib.Path, changed_us: int) -> Progress:
    settings = msgspec.json.decode(content_of(place / _SETTINGS, _SETTINGS_MAX)[0], type=_Settings)
    try:
        lines, _ = content_of(place / _DONE, REPORT_MAX)
    except FileNotFoundError:
        lines = b""
    done: dict[int, _Done] = {}
    for line in lines[: lines.rfind(b"\n") + 1].splitlines():  # one that is half written does not count
        one = msgspec.json.decode(line, type=_Done)
        done.setdefault(one.number, one)
    kinds: dict[str, int] = {}
    for one in done.values():
        kinds[one.kind] = kinds.get(one.kind, 0) + one.completed
    return Progress(
        name=name,
        runs=settings.runs,
        seed=settings.seed,
        completed=sum(one.completed for one in done.values()),
        batches=len(done),
        sandboxes=sum(one.sandboxes for one in done.values()),
        raised=sum(len(one.findings) for one in done.values()),
        inconclusive=sum(len(one.lost) for one in done.values()),
        kinds=kinds,
        changed_us=changed_us,
    )
