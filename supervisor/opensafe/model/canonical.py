"""One byte form for everything that is hashed: canonical JSON and the digests over it.

The encoding is RFC 8785 restricted to what can be encoded without choice: no floats, integers within
+-(2**53 - 1), strings that are valid Unicode. Within that subset sorted keys and minimal escapes are all that
RFC 8785 asks for, except that it sorts keys by UTF-16 code unit; keys beyond the basic plane are refused, so
both orders agree. Digests are lower-case hexadecimal SHA-256.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from .merkle import leaf

MAX_SAFE_INTEGER: Final = 2**53 - 1
MAX_DEPTH: Final = 64

#: Whatever these hold has a form, or the encoder says that it has none.
_PLAIN: Final = frozenset((str, bool, type(None)))
#: One of these is found wherever an integer is beyond the bounds; in texts, too. Each begins with a literal, which is
#: what makes its search fast.
_LONG: Final = tuple(
    re.compile(pattern).search
    for pattern in (rb"9[0-9]{15}", rb":[1-9][0-9]{16}", rb",[1-9][0-9]{16}", rb"\[[1-9][0-9]{16}", rb"-[1-9][0-9]{15}")
)
_encoder = msgspec.json.Encoder(order="sorted")


class NotCanonicalError(ValueError):
    """The value has no canonical form here: a float, a huge integer, a lone surrogate, too deep."""


def _no_float(text: str) -> float:
    raise NotCanonicalError(f"float {text} has no canonical form")


_decoder = msgspec.json.Decoder(float_hook=_no_float)


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


def read_canonical(line: bytes) -> object:
    """The value whose canonical form `line` is. How deep it may be is its writer's affair.

    Raises NotCanonicalError where it is another form or has none, msgspec.DecodeError where it is no JSON.
    """
    try:
        value = _decoder.decode(line)
    except msgspec.ValidationError as error:  # so it tells what a hook has refused
        raise NotCanonicalError(str(error)) from error
    if _encoder.encode(value) != line:
        raise NotCanonicalError("not in canonical form")
    # Only so can it hold a key beyond the basic plane or too large an integer.
    if not line.startswith(b"{") or not line.isascii() or any(search(line) for search in _LONG):
        _check(value)
    return value


def written(value: object) -> bytes:
    """The line that `read_canonical` gave this value for, however deep."""
    return _encoder.encode(value)


def digest(value: object) -> str:
    """SHA-256 of the canonical JSON of `value`, 64 hexadecimal characters."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def leaf_hash(line: bytes) -> str:
    """RFC 6962 leaf hash of one log line without its newline: SHA-256(0x00 || line)."""
    return leaf(line).hex()


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
