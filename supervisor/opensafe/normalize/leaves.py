"""What the file tools leave in files, for a later call of the session that runs one of them.

A text is kept as far as a shell's may be read: what is longer, no text, or comes after the decision is written and not
known. What a tree brings is the workspace's own.
"""

import base64
import binascii
from typing import Final

from opensafe.model.written import NOTHING_LEFT, Left, Written

from .environment import DEFAULT_CWD
from .kept import MAX_TEXT
from .paths import resolve
from .tool_spec import Sealed

_MOST_BASE64: Final = MAX_TEXT * 4 * 4 // 3 + 4  # of so many characters, each of four bytes


def left_by_write(arguments: Sealed, before: Written) -> Left:
    """A Write: the whole file, or the part of it from `offset` on."""
    path = resolve(arguments["path"], DEFAULT_CWD)
    text = _text(arguments)
    known = before.texts.get(path)
    if text is None:
        return Left(texts={path: ()}, sure={} if "offset" in arguments else {path: ()})
    if "offset" not in arguments:
        return Left(texts={path: (*(known or ()), text)}, sure={path: (text,)})
    parts = _spliced(known or (), text, arguments["offset"], ends=arguments.get("truncate", False))
    return Left(texts={path: (*(known or ()), *parts, text)})


def left_by_move(arguments: Sealed, before: Written) -> Left:
    """A Move: what is known of a file, or of those in a directory, under the new name as well."""
    source, to = (resolve(arguments[name], DEFAULT_CWD) for name in ("path", "to"))
    if not before.texts:
        return NOTHING_LEFT
    texts = {}
    for path, known in before.texts.items():
        if path == source or path.startswith(f"{source}/"):
            there = to + path[len(source) :]
            texts[there] = (*before.texts.get(there, ()), *known) if known else ()
    return Left(texts=texts)


def _text(arguments: Sealed) -> str | None:
    """The content as text; None where it is none, too long or not there."""
    content = arguments.get("content")
    if isinstance(content, str):
        return content if len(content) <= MAX_TEXT else None
    coded = arguments.get("content_base64")
    if not isinstance(coded, str) or len(coded) > _MOST_BASE64:
        return None
    try:
        text = base64.b64decode(coded, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    return text if len(text) <= MAX_TEXT and "\0" not in text else None


def _spliced(known: tuple[str, ...], text: str, offset: int, *, ends: bool) -> list[str]:
    """The known texts with `text` in them, at a byte's place."""
    found = []
    for old in known:
        data = old.encode("utf-8", "replace")
        if offset <= len(data):
            new = text.encode("utf-8", "replace")
            tail = b"" if ends else data[offset + len(new) :]
            found.append((data[:offset] + new + tail).decode("utf-8", "replace"))
    return found
