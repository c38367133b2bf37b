"""A call's arguments as a person has to see them who answers for it: whole, line by line, with nothing that deceives.

Lines end where the text has a line feed and nowhere else; every other sign that does not show is made visible where the
page is drawn. Letters that look like others are told by their names.
"""

import json
import unicodedata
from typing import Any, Final

import msgspec

#: Characters and lines of all arguments together that a page shows; it says what it leaves out.
CHARACTERS_MAX: Final = 256 * 1024
LINES_MAX: Final = 2000
ARGUMENTS_MAX: Final = 200
_FOREIGN_MAX: Final = 40
#: Indented, deep nesting takes sixty times as much.
_INDENTED_MAX: Final = 64 * 1024


class Argument(msgspec.Struct, frozen=True, kw_only=True):
    """One argument. lines: of its text, or of its JSON where it is no text; without what was left out.

    left_out: characters that are not in `lines`. foreign: letters from outside ASCII by name, some of `foreign_count`.
    """

    name: str
    text: bool
    lines: tuple[str, ...]
    characters: int
    line_count: int
    left_out: int
    foreign: tuple[str, ...]
    foreign_count: int


def exact(arguments: dict[str, Any]) -> tuple[Argument, ...]:
    """Arguments in the order they were sent in; beyond ARGUMENTS_MAX they count as left out of the last."""
    found: list[Argument] = []
    characters, lines = CHARACTERS_MAX, LINES_MAX
    for name, value in arguments.items():
        if len(found) == ARGUMENTS_MAX:
            beyond = sum(len(text) for text in arguments) - sum(len(one.name) for one in found)
            found[-1] = msgspec.structs.replace(found[-1], left_out=found[-1].left_out + beyond)
            break
        whole = value if isinstance(value, str) else as_json(value)
        shown = whole[:characters].split("\n")[:lines]
        size = len("\n".join(shown))
        characters, lines = characters - size, lines - len(shown)
        foreign = sorted({letter for letter in whole if ord(letter) > 127})
        found.append(
            Argument(
                name=name,
                text=isinstance(value, str),
                lines=tuple(shown),
                characters=len(whole),
                line_count=whole.count("\n") + 1,
                left_out=len(whole) - size,
                foreign=tuple(_named(letter) for letter in foreign[:_FOREIGN_MAX]),
                foreign_count=len(foreign),
            )
        )
    return tuple(found)


def as_json(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """JSON of ASCII alone: exact, and nothing in it is other than it looks. Indented unless it is long as it is."""
    plain = json.dumps(value)
    return plain if len(plain) > _INDENTED_MAX else json.dumps(value, indent=2)


def _named(letter: str) -> str:
    return f"U+{ord(letter):04X} {unicodedata.name(letter, '')}".rstrip()
