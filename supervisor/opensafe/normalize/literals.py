"""Texts of code that may name a file: where one stands, the file counts as read."""

import re
from typing import Final

from .paths import ROOTS

_PATH: Final = re.compile(
    r"(?:~|\.{0,2})/[^\s<>|;]{1,200}|~|\.[A-Za-z][\w.-]*|[\w-][\w./-]*\.[A-Za-z]\w{0,7}|[\w.-]+/[\w./-]+"
    r"|id_\w+|[A-Z]\w*file"
)


def names_file(text: str) -> bool:
    """Whether a text looks like a path. One at the root that no directory there begins, as a URL's, is none."""
    if len(text) > 256 or "://" in text or not _PATH.fullmatch(text):
        return False
    return text[:1] != "/" or text.lstrip("/").partition("/")[0] in ROOTS or ".." in text or "/." in text
