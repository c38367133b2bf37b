"""One byte form for everything that is hashed: canonical JSON and the digests over it.

The encoding is RFC 8785 restricted to what can be encoded without choice: no floats, integers within
+-(2**53 - 1), strings that are valid Unicode. Within that subset sorted keys and minimal escapes are all that
RFC 8785 asks for, except that it sorts keys by UTF-16 code unit; keys beyond the basic plane are refused, so
both orders agree. Digests are lower-case hexadecimal SHA-256.
"""

import hashlib
from typing import Final

import msgspec

MAX_SAFE_INTEGER: Final = 2**53 - 1
MAX_DEPTH: Final = 64

_LEAF_PREFIX: Final = b"\x00"
_encoder = msgspec.json.Encoder(order="sorted")


class NotCanonicalError(ValueError):
    """The value has no canonical form here: a float, a huge integer, a lone surrogate, too deep."""


def canonical_json(value: object) -> bytes:
    """Encode `value` (builtins or msgspec structs) as canonical JSON.

    Raises NotCanonicalError naming the offending value.
    """
    builtins = msgspec.to_builtins(value, str_keys=True)
    _check(builtins, 0)
    return _encoder.encode(builtins)


def digest(value: object) -> str:
    """SHA-256 of the canonical JSON of `value`, 64 hexadecimal characters."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def leaf_hash(line: bytes) -> str:
    """RFC 6962 leaf hash of one log line without its newline: SHA-256(0x00 || line)."""
    return hashlib.sha256(_LEAF_PREFIX + line).hexdigest()


def _check(value: object, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise NotCanonicalError(f"nested deeper than {MAX_DEPTH}")
    match value:
        case None | bool():
            return
        case int():
            if not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
                raise NotCanonicalError(f"integer {value} is beyond +-(2**53 - 1)")
        case str():
            _check_text(value)
        case list() | tuple():
            for item in value:
                _check(item, depth + 1)
        case dict():
            for key, item in value.items():
                _check_key(key)
                _check(item, depth + 1)
        case _:
            raise NotCanonicalError(f"{type(value).__name__} {value!r} has no canonical form")


def _check_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotCanonicalError(f"lone surrogate in text {text[:40]!r}") from error


def _check_key(key: object) -> None:
    if not isinstance(key, str):
        raise NotCanonicalError(f"key {key!r} is not text")
    _check_text(key)
    if not key.isascii() and max(key) > "\uffff":
        raise NotCanonicalError(f"key {key[:40]!r} lies beyond the basic plane")
