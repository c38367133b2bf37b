"""Identifiers: who makes which, and what they may look like.

The daemon makes every id but `call_id`, which the client chooses. All are printable, short and free of
characters that mean something to a path, a shell or a log.
"""

import re
import secrets
import time
from typing import Final

CALL_ID_MAX: Final = 128
_CALL_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_OWN_ID: Final = re.compile(r"(?:ses|sb|dec|rev|exec|permit)-[0-9a-f]{20}")


def new_id(prefix: str) -> str:
    """A fresh random id such as `sb-3f…` (80 random bits, never reused)."""
    return f"{prefix}-{secrets.token_hex(10)}"


def is_call_id(text: str) -> bool:
    """Whether `text` may be a client's call id: 1 to 128 of `A-Za-z0-9._:-`, starting with a letter or digit."""
    return _CALL_ID.fullmatch(text) is not None


def is_own_id(text: str, prefix: str) -> bool:
    """Whether `text` is an id this daemon could have made with `prefix`."""
    return _OWN_ID.fullmatch(text) is not None and text.startswith(f"{prefix}-")


def now_us() -> int:
    """The time as records carry it: microseconds since the epoch, UTC."""
    return time.time_ns() // 1000
