"""What a step of the set-up is, what its failure carries, and how it remembers that it is done.

A step is done when what it made exists *and* was made from the inputs of today: the stamp holds a digest of the
inputs' content, so a changed lock or source runs its step again and a fresh clone with an old mtime doesn't.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .runner import Runner


class Operation(Protocol):
    """One step. It can be described without being executed, and executed again after a failure."""

    @property
    def name(self) -> str:
        """The name by which the step is asked for, and of its log and stamp."""

    def describe(self) -> str:
        """What executing would do, in one line."""

    def is_done(self) -> bool:
        """Whether there is nothing to do. Cheap: called for every step of every run."""

    def execute(self, run: Runner) -> None:
        """Do it. Raises StepError (from runner.py) with the reason and the remedy."""


def digest(*inputs: str | Path) -> str:
    """SHA-256 over strings and over the names and contents of files, in the order given."""
    total = hashlib.sha256()
    for item in inputs:
        data = item.read_bytes() if isinstance(item, Path) else item.encode()
        name = item.name if isinstance(item, Path) else ""
        total.update(f"{name}\0{len(data)}\0".encode())
        total.update(data)
    return total.hexdigest()


def files_below(directory: Path, patterns: Iterable[str]) -> list[Path]:
    """The files below `directory` that match one of the glob patterns, sorted."""
    return sorted({path for pattern in patterns for path in directory.rglob(pattern) if path.is_file()})


@dataclass(frozen=True, slots=True)
class Stamp:
    """The memory of one finished step: a file with the digest of its inputs."""

    path: Path

    def holds(self, key: str) -> bool:
        """Whether the step was last finished with exactly these inputs."""
        try:
            return self.path.read_text().strip() == key
        except FileNotFoundError:
            return False

    def set(self, key: str) -> None:
        """Remember that the step is finished."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(key + "\n")
