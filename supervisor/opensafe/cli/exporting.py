"""What `audit export` does for other systems: lines to a file or to standard output, and what became of the rest."""

import contextlib
import os
import pathlib
import sys
from collections.abc import Iterable, Iterator
from typing import TextIO

from opensafe.audit.export import Export, Format
from opensafe.audit.scope import Scope
from opensafe.errors import InvalidArgument

from . import exits, present


def run(state: pathlib.Path, form: str, scope: Scope, output: pathlib.Path | None) -> int:
    """Export; 1 where the log is not intact. Raises AuditError, InvalidArgument."""
    export = Export(state, Format(form), scope)
    written = 0
    with _opened(output) as out:
        for line in export.lines():
            out.write(f"{line}\n")
            written += 1
    left = f"; no event: {_counted(export.unmapped.items())}" if export.unmapped else ""
    masked = f"; masked: {_counted(export.masked.items())}" if export.masked else ""
    present.say(f"{export.records} records, {written} lines{left}{masked}")
    if export.broken is None:
        return exits.Exit.OK
    present.say(f"the log is not intact, and the export ends there: {export.broken}")
    return exits.Exit.GOAL_MISSED


def _counted(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts))


@contextlib.contextmanager
def _opened(output: pathlib.Path | None) -> Iterator[TextIO]:
    """Standard output, or a file for its owner alone. Raises InvalidArgument."""
    if output is None:
        yield sys.stdout
        return
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InvalidArgument(f"can't write: {error.strerror}", value=output) from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        yield file
