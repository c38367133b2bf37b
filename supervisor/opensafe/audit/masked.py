"""Secrets taken out of a record before it is written, with a note of where.

Only what people and programs have worded is masked: arguments, facts, reasons, messages. Ids, digests and counts are
what the log is folded and verified by, and stay. A masked call can't be judged again, since what it was is gone:
whoever replays leaves it out and says so.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from opensafe.model.canonical import canonical_json
from opensafe.model.masking import KINDS, mask
from opensafe.model.records import DecisionRecord, Record

#: The worded fields of a record by its kind. Kinds that are not here have none.
_WORDED: Final = {
    "decision": ("input", "result"),
    "outcome": ("outcome",),
    "refusal": ("tool", "reason", "message"),
    "review": ("reason",),
    "ban": ("reason",),
    "session": ("agent",),
    "sandbox": ("cause", "labels"),
    "bundle": ("reason",),
    "shadow": ("rules",),
}
_MARKER: Final = re.compile(rf"\[masked:(?:{'|'.join(KINDS)})\]")


def masked(record: Record, line: bytes) -> dict[str, Any] | None:
    """The record's fields without the secrets in them, and `masked`: JSON pointers to what was changed.

    line: the record as JSON, to be looked through at once. None where it holds no secret, which is nearly always.
    """
    if not mask(line.decode())[1]:
        return None
    fields: dict[str, Any] = msgspec.to_builtins(record)
    changed: list[str] = []
    for name in _WORDED.get(fields["kind"], ()):
        before = fields[name]
        after = msgspec.json.decode(mask(canonical_json(before).decode())[0])
        changed += _changed(f"/{name}", before, after)
        fields[name] = after
    if not changed:
        return None
    return fields | {"masked": changed}


def unmarked(record: DecisionRecord) -> tuple[str, ...]:
    """What `masked` names though no marker stands there: nobody masked it, and the record says so to be left out."""
    fields = msgspec.to_builtins(record)
    return tuple(pointer for pointer in record.masked or () if not _MARKER.search(_text_at(pointer, fields)))


def _text_at(pointer: str, value: Any) -> str:  # noqa: ANN401 - any JSON
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list | tuple) and name.isdecimal() and len(name) < 10 and int(name) < len(value):
            value = value[int(name)]
        else:
            return ""
    return msgspec.json.encode(value).decode()


def _changed(place: str, before: object, after: object) -> Iterator[str]:
    """Pointers (RFC 6901) to the texts that differ; to the object where a key of it does."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        for key in before:
            yield from _changed(f"{place}/{key.replace('~', '~0').replace('/', '~1')}", before[key], after[key])
    elif isinstance(before, list | tuple) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _changed(f"{place}/{number}", one, other)
    elif before != after:
        yield place
