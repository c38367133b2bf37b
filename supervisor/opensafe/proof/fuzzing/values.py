"""JSON that readers disagree about, and structures with one place changed: what a mutation of bytes rarely hits."""

import json
from collections.abc import Sequence
from typing import Any, Final

from .draw import Draw

_ODD: Final[tuple[object, ...]] = (
    None, True, False, 0, -1, 1, 2**53 - 1, 2**53, 2**53 + 1, -(2**53), 2**64, "", "a", "..", "/", "0", "true", "null",
    "\u202e", "\uff0f", "a\nb", [], {}, [None], [[]], {"": None}, ["a", "a"],
)  # fmt: skip
#: What stands in the place of a value and is none, or is read in more than one way.
_SPELLED: Final = (
    "1e3", "1.0", "-0", "NaN", "Infinity", "01", "1e999", '"\\u0000"', '"\\ud800"', '"\\ud83d\\ude00"', '"\ud800"',
    "9007199254740993", "18446744073709551616", "'a'", "undefined", '"\t"', "[1,]", "",
)  # fmt: skip
_DEPTH: Final = 4
_MEMBERS: Final = 4


def odd(draw: Draw) -> object:
    """One value at which a reader might stumble."""
    return draw.pick(_ODD)


def spelled(draw: Draw, names: Sequence[str], texts: Sequence[str], depth: int = _DEPTH) -> str:
    """JSON text, or nearly so. names: of members. texts: strings that mean something where it is read."""
    match draw.number(0, 7) if depth else draw.number(0, 3):
        case 0 | 1:
            return json.dumps(draw.pick(texts))
        case 2:
            return json.dumps(draw.pick(_ODD)) if draw.flag() else draw.pick(_SPELLED)
        case 3:
            return json.dumps(draw.text(24), ensure_ascii=draw.flag())
        case 4:
            return (
                "[" + ", ".join(spelled(draw, names, texts, depth - 1) for _ in range(draw.number(0, _MEMBERS))) + "]"
            )
        case _:
            return object_of(draw, names, texts, depth)


def object_of(draw: Draw, names: Sequence[str], texts: Sequence[str], depth: int = _DEPTH) -> str:
    """JSON text of an object; a name may stand in it twice."""
    members = (
        f"{json.dumps(draw.pick(names))}: {spelled(draw, names, texts, depth - 1)}"
        for _ in range(draw.number(0, _MEMBERS))
    )
    return "{" + ", ".join(members) + "}"


def edited(draw: Draw, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """A copy with one place changed: a member left out, added, replaced, wrapped, doubled or renamed."""
    if isinstance(value, dict) and value:
        key = draw.pick(sorted(value))
        if isinstance(value[key], dict | list) and value[key] and draw.number(0, 3):
            return {**value, key: edited(draw, value[key])}
        rest = {name: item for name, item in value.items() if name != key}
        match draw.number(0, 5):
            case 0:
                return rest
            case 5:
                return {**value, "extra": odd(draw)}
            case 1:
                return {**rest, key.upper() if draw.flag() else f"{key} ": value[key]}
            case 2:
                return {**value, key: [value[key]]}
            case 3:
                return {**value, key: json.dumps(value[key])}
            case _:
                return {**value, key: odd(draw)}
    if isinstance(value, list) and value:
        at = draw.number(0, len(value) - 1)
        changed = edited(draw, value[at])
        return [
            *value[:at],
            *draw.pick(([], [changed], [value[at], value[at]], [changed, value[at]])),
            *value[at + 1 :],
        ]
    return odd(draw)


def mistyped(draw: Draw, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """A copy with one member left out, or one value of another type in its place: never a value that could be right."""
    if isinstance(value, dict) and value:
        key = draw.pick(sorted(value))
        if isinstance(value[key], dict | list) and value[key] and draw.number(0, 3):
            return {**value, key: mistyped(draw, value[key])}
        if draw.flag():
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: _other(draw, value[key])}
    if isinstance(value, list) and value:
        at = draw.number(0, len(value) - 1)
        return [*value[:at], mistyped(draw, value[at]), *value[at + 1 :]]
    return _other(draw, value)


def _other(draw: Draw, value: object) -> object:
    kind = type(value)
    return draw.pick([one for one in (None, True, 7, "7", [7], {"7": 7}, [], {}) if type(one) is not kind])
