"""Seeing that a tree of sources changed, for `opensafe policy build --watch`.

By looking at the files' times: directories come and go, editors write in ways of their own, and a tree of two hundred
files is looked at in a few milliseconds. What changes during a build is seen after it.
"""

import pathlib
import time
from collections.abc import Iterator
from typing import Final

_LOOK_S: Final = 0.25

_State = dict[pathlib.Path, tuple[int, int]]


def changes(directory: pathlib.Path) -> Iterator[None]:
    """Yields at once, and then whenever `directory` is another than at the last time; never ends."""
    while True:
        seen = _look(directory)
        yield
        while _look(directory) == seen:
            time.sleep(_LOOK_S)
        _settle(directory)


def _settle(directory: pathlib.Path) -> None:
    """Wait until two looks agree: a checkout or a formatter writes many files."""
    last: _State = {}
    while (now := _look(directory)) != last:
        last = now
        time.sleep(_LOOK_S)


def _look(directory: pathlib.Path) -> _State:
    found: _State = {}
    for path in directory.rglob("*"):
        try:
            stat = path.stat(follow_symlinks=False)
        except OSError:  # removed meanwhile
            continue
        if path.suffix in (".rego", ".json", ".jsonl"):
            found[path] = (stat.st_mtime_ns, stat.st_size)
    return found
