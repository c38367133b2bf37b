"""One byte form for everything that is hashed: canonical JSON and the digests over it.

The encoding is RFC 8785 restricted to what can be encoded without choice: no floats, integers within
+-(2**53 - 1), strings that are valid Unicode. Within that subset sorted keys and minimal escapes are all that
RFC 8785 asks for, except that it sorts keys by UTF-16 code unit; keys beyond the basic plane are refused, so
both orders agree. Digests are lower-case hexadecimal SHA-256.
"""

import hashlib
from collections.abc import Iterable
from typing import Any, Final

import msgspec

MAX_SAFE_INTEGER: Final = 2**53 - 1
MAX_DEPTH: Final = 64

_LEAF_PREFIX: Final = b"\x00"
#: Whatever these hold has a form, or the encoder says that it has none.
_PLAIN: Final = frozenset((str, bool, type(None)))
_encoder = msgspec.json.Encoder(order="sorted")


class NotCanonicalError(ValueError):
    """The value has no canonical form here: a float, a huge integer, a lone surrogate, too deep."""


def canonical_json(value: object, **more: int | str) -> bytes:
    """Encode `value` (builtins or msgspec structs) as canonical JSON; an object with `more` fields.

    Raises NotCanonicalError naming the offending value.
    """
    try:
        builtins = msgspec.to_builtins(value, str_keys=True)
        if more:
            builtins |= more
        _check(builtins)
        return _encoder.encode(builtins)
    except UnicodeEncodeError as error:
        raise NotCanonicalError(f"lone surrogate in text {error.object[:40]!r}") from error
    except RecursionError as error:
        raise NotCanonicalError(f"nested deeper than {MAX_DEPTH}") from error


def digest(value: object) -> str:
    """SHA-256 of the canonical JSON of `value`, 64 hexadecimal characters."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def leaf_hash(line: bytes) -> str:
    """RFC 6962 leaf hash of one log line without its newline: SHA-256(0x00 || line)."""
    return hashlib.sha256(_LEAF_PREFIX + line).hexdigest()


def _check(value: object) -> None:
    """Hold what the encoder does not. Level by level and by exact types, without calls: it runs over every record."""
    level: list[Any] = [value]
    depth = 0
    while level:
        if depth > MAX_DEPTH:
            raise NotCanonicalError(f"nested deeper than {MAX_DEPTH}")
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind in _PLAIN:
                continue
            if kind is int:
                if not -MAX_SAFE_INTEGER <= item <= MAX_SAFE_INTEGER:
                    raise NotCanonicalError(f"integer {item} is beyond +-(2**53 - 1)")
            elif kind is dict:
                if not "".join(item).isascii():
                    _check_keys(item)
                below.extend(item.values())
            elif kind is list or kind is tuple:
                below.extend(item)
            else:
                raise NotCanonicalError(f"{kind.__name__} {item!r} has no canonical form")
        level, depth = below, depth + 1


def _check_keys(keys: Iterable[str]) -> None:
    for key in keys:
        if key and max(key) > "\uffff":
            raise NotCanonicalError(f"key {key[:40]!r} lies beyond the basic plane")
