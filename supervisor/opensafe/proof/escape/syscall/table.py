"""The answers as they are expected of one version of runsc: a file of ranges for each, kept beside this module.

A sentry that begins to have a call, or to answer another way, is a change to look at: the filter keeps it from most,
and what it does with the rest is what stands there.
"""

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from .plan import X32, Answers, Way

_PLACE: Final = pathlib.Path(__file__).with_name("expected")


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """answers: profile (`none`: no filter) → way and arguments → answer → numbers, ranges among them."""

    runsc: str
    answers: dict[str, dict[str, dict[str, str]]]


def path(version: str) -> pathlib.Path:
    """Where a version's stands, or would."""
    return _PLACE / f"{''.join(char for char in version if char.isalnum() or char in '.-_')}.json"


def read(version: str) -> Table | None:
    """None: nobody has looked at this version."""
    try:
        return msgspec.json.decode(path(version).read_bytes(), type=Table)
    except FileNotFoundError:
        return None


def write(version: str, answers: Mapping[str, Answers]) -> pathlib.Path:
    """Put down what was answered, in the place of what was expected; of other profiles that stays. Raises OSError."""
    known = read(version)
    of = {**(known.answers if known else {}), **{profile: _table(of) for profile, of in answers.items()}}
    _PLACE.mkdir(exist_ok=True)
    place = path(version)
    text = msgspec.json.format(msgspec.json.encode(Table(runsc=version, answers=of)), indent=1)
    place.write_bytes(text + b"\n")
    return place


def differences(table: Table, profile: str, answers: Answers) -> tuple[str, ...]:
    """Where answers are not the expected ones, in words."""
    found: list[str] = []
    expected, now = table.answers.get(profile, {}), _table(answers)
    for way in sorted(expected.keys() | now.keys()):
        before, after = _by_number(expected.get(way, {})), _by_number(now.get(way, {}))
        found += [
            f"{way} {number}: {after.get(number, 'not tried')}, expected {before.get(number, 'nothing')}"
            for number in sorted(before.keys() | after.keys())
            if before.get(number) != after.get(number)
        ]
    return tuple(found)


def _table(answers: Answers) -> dict[str, dict[str, str]]:
    numbers: dict[str, dict[str, list[int]]] = {}
    for attempt, answer in answers.items():
        number = attempt.number & ~X32 if attempt.way is Way.X32 else attempt.number
        way = f"{attempt.way} {'plausible' if attempt.arguments else 'null'}"
        numbers.setdefault(way, {}).setdefault(answer, []).append(number)
    return {
        way: {answer: _ranges(sorted(of)) for answer, of in sorted(by_answer.items())}
        for way, by_answer in sorted(numbers.items())
    }


def _ranges(numbers: Sequence[int]) -> str:
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _by_number(of: Mapping[str, str]) -> dict[int, str]:
    return {number: answer for answer, words in of.items() for word in words.split() for number in _span(word)}


def _span(word: str) -> Iterable[int]:
    first, _, last = word.partition("-")
    return range(int(first), int(last or first) + 1)
