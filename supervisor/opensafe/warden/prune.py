"""Which archived bundles nobody will ask for again: what keeps `bundles/` from growing with every one that was tried.

A bundle is needed where a record names it as what was judged by, so that the record can be judged again, and where it
was activated last, so that there is one to fall back on. The records are the front's, who might be an attacker: all
that it can say here is that more is needed. What can't be read is a reason to remove nothing.
"""

import logging
import pathlib
import re
from collections.abc import Iterable
from typing import Final

from ..model.chain import MAX_LINE

#: Unneeded ones that are kept all the same, the newest: evidence of what was refused lately.
SPARES: Final = 32
#: Removed at one start, at most.
AT_ONCE: Final = 256

_ARCHIVED: Final = re.compile(r"([0-9a-f]{64})\.tar\.gz")
#: As canonical JSON has them: of a decision or a daemon's record, and of an activation.
_JUDGED_BY: Final = re.compile(rb'"bundles":\{"opensafe":\{"digest":"([0-9a-f]{64})"')
_ACTIVATED: Final = re.compile(rb'\{"digest":"([0-9a-f]{64})",.*"kind":"bundle",.*"state":"activated"')

_log = logging.getLogger(__name__)


def prune(archive: pathlib.Path, audit: pathlib.Path) -> tuple[str, ...]:
    """Remove what is neither needed nor among the newest spares; the digests, oldest first."""
    removed: list[str] = []
    try:
        files = {found[1]: path for path in archive.iterdir() if (found := _ARCHIVED.fullmatch(path.name))}
        if len(files) <= SPARES:
            return ()
        needed = _needed(sorted(audit.glob("segment-*.jsonl")))
        spare = sorted(files.keys() - needed, key=lambda digest: (files[digest].stat().st_mtime_ns, digest))
        for digest in spare[: max(0, len(spare) - SPARES)][:AT_ONCE]:
            files[digest].unlink()
            removed.append(digest)
    except (OSError, ValueError) as error:
        _log.error("no further archived bundle is removed: %s", error)
    return tuple(removed)


def _needed(segments: Iterable[pathlib.Path]) -> set[str]:
    """Raises OSError, ValueError."""
    needed, activated = set[bytes](), b""
    for segment in segments:
        with segment.open("rb") as lines:
            while line := lines.readline(MAX_LINE + 1):
                if len(line) > MAX_LINE:
                    raise ValueError(f"a line of {segment.name} is longer than any record")
                needed.update(_JUDGED_BY.findall(line))
                found = _ACTIVATED.match(line)
                activated = found[1] if found else activated
    return {digest.decode() for digest in (*needed, activated) if digest}
