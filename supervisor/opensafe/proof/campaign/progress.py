"""A campaign's progress on disk: what was asked for, and a line for each batch that is done. What is half written does
not count, so that a campaign that was killed goes on where its last whole line ends.
"""

import os
import pathlib
from typing import Final, Self

import msgspec

from opensafe.errors import InvalidArgument

from .batch import Batch, Done

_SETTINGS: Final = "campaign.json"
_DONE: Final = "batches.jsonl"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a campaign is: the same settings are the same runs. size: runs a sandbox. corpus: digest of what is kept."""

    runs: int
    seed: int
    size: int = 100
    corpus: str = ""

    def batch(self, number: int) -> Batch:
        """One of them; the last of those planned may be smaller."""
        left = self.runs - number * self.size
        size = min(self.size, left) if left > 0 else self.size
        return Batch(seed=self.seed, number=number, size=size, corpus=self.corpus)

    @property
    def planned(self) -> int:
        """Batches, if every run is of full length."""
        return -(-self.runs // self.size)


class Progress:
    """done: by number, once each."""

    def __init__(self, directory: pathlib.Path | None, settings: Settings) -> None:
        """directory: None keeps nothing."""
        self.settings = settings
        self.done: dict[int, Done] = {}
        self._file = None
        if directory is not None:
            self._file = (directory / _DONE).open("ab", buffering=0)

    @classmethod
    def open(cls, directory: pathlib.Path, settings: Settings) -> Self:
        """Begin there, or go on. Raises InvalidArgument where another campaign lies there; OSError."""
        directory.mkdir(parents=True, exist_ok=True)
        place = directory / _SETTINGS
        if place.exists():
            found = msgspec.json.decode(place.read_bytes(), type=Settings)
            if found != settings:
                kept = found.corpus or "none"
                raise InvalidArgument(
                    "another campaign lies there",
                    value=f"--runs {found.runs} --seed {found.seed} --size {found.size}, corpus {kept}",
                    remedy="Give its settings, or another directory.",
                )
        else:
            part = place.with_suffix(".part")
            part.write_bytes(msgspec.json.encode(settings))
            part.rename(place)
        whole = _whole(directory / _DONE)
        progress = cls(directory, settings)
        for line in whole:
            one = msgspec.json.decode(line, type=Done)
            progress.done.setdefault(one.number, one)
        return progress

    def add(self, one: Done) -> bool:
        """Take a batch's result in; False for one that is there already, which stays."""
        if one.number in self.done:
            return False
        if self._file is not None:
            self._file.write(msgspec.json.encode(one) + b"\n")
            os.fdatasync(self._file.fileno())
        self.done[one.number] = one
        return True

    def close(self) -> None:
        """Write no more."""
        if self._file is not None:
            self._file.close()

    @property
    def completed(self) -> int:
        """Runs of full length with an answer."""
        return sum(one.completed for one in self.done.values())

    def next(self) -> list[Batch]:
        """Batches that are to be run now: those planned, then as many more as their short runs left open."""
        settings = self.settings
        planned = [number for number in range(settings.planned) if number not in self.done]
        missing = settings.runs - self.completed
        if planned or missing <= 0:
            return [settings.batch(number) for number in planned]
        first = max(self.done) + 1
        sizes = [min(settings.size, missing - begun) for begun in range(0, missing, settings.size)]
        return [msgspec.structs.replace(settings.batch(number), size=size) for number, size in enumerate(sizes, first)]


def _whole(path: pathlib.Path) -> list[bytes]:
    """The file's whole lines; a part of one at the end is cut off."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    end = content.rfind(b"\n") + 1
    if end < len(content):
        os.truncate(path, end)
    return content[:end].splitlines()
