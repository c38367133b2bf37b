"""Checks of what termination needs of the host (docs/egress.md), for a site that has it.

Files are looked at and never read: `doctor` may be run by anybody, and what it finds is passed on.
"""

import pathlib
import stat
from collections.abc import Iterator
from typing import Final

from opensafe.config import Config
from opensafe.model.termination import SYSTEM

from .checks import Check, check

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_MISSING, _GOOD = "is not there", "is root's alone"


def look(config: Config, root: pathlib.Path = pathlib.Path("/")) -> Iterator[Check]:
    """The authority's key, whom servers are verified by, and each credential; nothing where nothing is terminated.

    `root` is for tests.
    """
    egress = config.egress
    if not egress.enabled or not egress.terminate:
        return
    names = ", ".join(one.name for one in egress.terminate)
    key = pathlib.Path(config.paths.state, "egress-ca.key")
    fault = _fault(key)
    missing = fault == _MISSING
    state = "is made at the next start" if missing else fault or _GOOD
    found = f"{names} under {key}, which {state}"
    remedy = "Remove the key, since others may have read it: another is made at the next start."
    yield check("terminated names", missing or not fault, found, remedy)
    places = [egress.upstream_ca] if egress.upstream_ca else [str(root / place) for place in SYSTEM]
    trusted = next((place for place in places if pathlib.Path(place).is_file()), "")
    remedy = "Install ca-certificates, or set egress.upstream_ca."
    yield check("upstream authorities", bool(trusted), trusted or f"none of {', '.join(places)}", remedy)
    for one in egress.credential:
        path = pathlib.Path(one.file)
        fault = _fault(path) if path.is_absolute() else ""
        state = fault or (_GOOD if path.is_absolute() else "is systemd's to load")
        yield check(f"credential {one.name}", not fault, f"{path} {state}", f"chown root {path} && chmod 400 {path}.")


def _fault(path: pathlib.Path) -> str:
    """What keeps a file from being root's alone; "" where nothing does."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return _MISSING
    except OSError as error:
        return f"can't be looked at: {error.strerror}"
    if not stat.S_ISREG(found.st_mode) or found.st_uid != 0 or found.st_mode & _OTHERS:
        return f"is {stat.filemode(found.st_mode)} of uid {found.st_uid}"
    return ""
