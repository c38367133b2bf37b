"""Strict JSON: the bytes of a call's arguments to one object that can be read in one way only.

RFC 8259 leaves open what duplicate keys, huge numbers and lone surrogates mean; here each is refused, as are
floats, so that what was validated, digested, judged and executed is the same value. RFC 6901 pointers name the
place of a fault.
"""

import json
import re
from typing import Any, Final, NoReturn

from opensafe.errors import InvalidArgument, LimitExceeded
from opensafe.model.canonical import MAX_DEPTH, MAX_SAFE_INTEGER

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_INTEGER_DIGITS: Final = 17


def parse_object(data: bytes, max_bytes: int) -> dict[str, Any]:
    """One JSON object, strict. Raises InvalidArgument and LimitExceeded, each naming value, limit and place."""
    if len(data) > max_bytes:
        raise LimitExceeded(
            "the arguments are too large",
            value=f"{len(data)} bytes",
            limit=f"{max_bytes} bytes",
            remedy="Send less, or move large content by the file service.",
        )
    try:
        value = _decoder.decode(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidArgument(
            "the arguments are no UTF-8", value=f"byte {error.start}", remedy="Encode them as UTF-8."
        ) from error
    except RecursionError as error:
        raise LimitExceeded("the arguments are nested too deep", limit=f"{MAX_DEPTH} levels") from error
    except json.JSONDecodeError as error:
        raise InvalidArgument(
            f"the arguments are no JSON: {error.msg}", value=f"character {error.pos}", remedy="Send one JSON object."
        ) from error
    if not isinstance(value, dict):
        raise InvalidArgument(
            "the arguments are no JSON object", value=type(value).__name__, remedy="Send one JSON object."
        )
    _check(value, "", 1)
    return value


def pointer(parts: list[str | int]) -> str:
    """RFC 6901 pointer of a path; `/` of the whole is shown as the arguments themselves."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def _check(value: object, place: str, depth: int) -> None:
    """Depth, NUL and lone surrogates, in keys as in values."""
    if isinstance(value, str):
        if "\0" in value:
            raise InvalidArgument(f"{place or '/'} holds a NUL", value=repr(value[:40]), remedy="Remove the NUL.")
        if not value.isascii() and _SURROGATE.search(value):
            raise InvalidArgument(
                f"{place or '/'} holds a lone surrogate", value=ascii(value[:40]), remedy="Send valid Unicode."
            )
        return
    if not isinstance(value, dict | list):
        return
    if depth > MAX_DEPTH:
        raise LimitExceeded(f"{place[:80]} is nested too deep", limit=f"{MAX_DEPTH} levels")
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(key, str):
            _check(key, place, depth)
        _check(item, place + pointer([key]), depth + 1)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidArgument(
                    "a key stands twice in one object", value=ascii(key), remedy="Send each key once."
                )
            seen.add(key)
    return value


def _integer(text: str) -> int:
    if len(text) <= _INTEGER_DIGITS and abs(value := int(text)) <= MAX_SAFE_INTEGER:
        return value
    raise InvalidArgument("an integer is too large", value=text, limit="+-(2**53 - 1)", remedy="Send a smaller one.")


def _refuse_number(text: str) -> NoReturn:
    raise InvalidArgument("a number is no integer", value=text, remedy="Send an integer.")


_decoder: Final = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_integer, parse_float=_refuse_number, parse_constant=_refuse_number
)
