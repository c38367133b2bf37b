"""Reading audit segments: `audit/segment-NNNNNN.jsonl` below the state directory, one record a line.

Segments are read as a stream, so that a log larger than memory can be verified.
"""

import fnmatch
import os
import pathlib
from collections.abc import Iterator
from typing import Final

from opensafe.errors import AuditError
from opensafe.model.chain import MAX_LINE

_REMEDY: Final = "Name the daemon's state directory with --state; root and the service user can read it."
_CHUNK: Final = 1 << 20


def segment_path(state: pathlib.Path, number: int) -> pathlib.Path:
    """Where segment `number` lies."""
    return state / "audit" / f"segment-{number:06d}.jsonl"


def segment_paths(state: pathlib.Path) -> list[pathlib.Path]:
    """All segments in order. Raises AuditError where there is none, or one is missing in between."""
    try:
        names = sorted(fnmatch.filter(os.listdir(state / "audit"), "segment-*.jsonl"))
    except OSError as error:
        raise _unreadable(error) from error
    if not names:
        raise AuditError("there is no audit log", value=state, remedy=_REMEDY)
    paths = [state / "audit" / name for name in names]
    for number, path in enumerate(paths):
        if path != segment_path(state, number):
            raise AuditError(f"segment {number} is missing", value=path.name, remedy="Restore it from a copy.")
    return paths


def read_lines(path: pathlib.Path, *, live: bool = False) -> Iterator[bytes]:
    """Yield the lines of one segment without their newline. A last line that was never ended is yielded as it is.

    live: the segment may be written to, and such a line is not complete yet: it is left out.
    """
    with path.open("rb", buffering=_CHUNK) as file:
        while line := file.readline(MAX_LINE + 1):
            if len(line) > MAX_LINE:
                raise AuditError("a line is longer than any record", value=path.name, limit=MAX_LINE)
            if live and not line.endswith(b"\n"):
                return
            yield line.removesuffix(b"\n")


def read_log(state: pathlib.Path, *, live: bool = False) -> Iterator[bytes]:
    """The lines of all segments, in order, as `read_lines` yields them. Raises AuditError."""
    paths = segment_paths(state)
    try:
        for path in paths:
            yield from read_lines(path, live=live and path == paths[-1])
    except OSError as error:
        raise _unreadable(error) from error


def _unreadable(error: OSError) -> AuditError:
    return AuditError(f"the audit log can't be read: {error.strerror}", value=error.filename, remedy=_REMEDY)


def is_ended(path: pathlib.Path) -> bool:
    """Whether a segment's last line has its newline; so has one without lines."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        return file.read(1) in (b"", b"\n")
