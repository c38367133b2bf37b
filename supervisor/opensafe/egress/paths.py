"""The one path that a request's target stands for, as the rules compare it (RFC 3986).

Envoy has resolved what it sees plainly. What hides behind an escape some servers resolve and others don't: such a
path is no path here, and rules that list paths refuse it.
"""

import re
import urllib.parse
from typing import Final

#: Characters of a target without its query.
LONGEST: Final = 2048
#: Escaped twice, or read as a separator by some.
_DOUBTFUL: Final = re.compile(r"%[0-9A-Fa-f]{2}|[\x00-\x1f\x7f\\]")


def judged(target: str) -> str:
    """Without query, escapes decoded once; "" where servers could read different paths."""
    raw = re.split(r"[?#]", target, maxsplit=1)[0]
    if len(raw) > LONGEST:
        return ""
    try:
        path = urllib.parse.unquote(raw, errors="strict")
    except UnicodeDecodeError:
        return ""
    if not path.startswith("/") or "//" in path or _DOUBTFUL.search(path):
        return ""
    # Some servers take what follows a semicolon off before they resolve dots.
    if any(part.partition(";")[0] in (".", "..") for part in path.split("/")):
        return ""
    return path
