"""One report of the sentry, decoded: what the monitor needs of it, or an error.

A report is one packet: header (size of the header, type, reports dropped so far; u16, u16, u32, little-endian) and a
protobuf message of gVisor's pkg/sentry/seccheck/points, whose numbers stand below. The sentry is what a guest that
broke out would own, so a report is hostile: sizes are capped, fields must ascend as every honest encoder writes them,
and nothing behind the last field that matters is looked at. Reading costs the same however long argv and environment
are.
"""

import struct
from typing import Final, NamedTuple

#: Longest report taken, in bytes: argv and environment of one program are at most 2 MiB (execve(2)).
MAX_REPORT: Final = 4 << 20
#: Longest path that can name a file (limits.h), and the most bytes of a container's id.
_PATH_MAX: Final = 4096
_ID_MAX: Final = 64
_PID_MAX: Final = 1 << 22
_VARINT_MAX: Final = 10
_U32: Final = 1 << 32

_HEADER: Final = struct.Struct("<HHI")
_VARINT, _BYTES = 0, 2

#: Message types (points/common.proto).
START: Final = 1
CLONE: Final = 2
EXEC: Final = 3
EXIT: Final = 4

# Fields of ContextData, and of the messages themselves, whose field 1 is the context.
_CONTEXT: Final = 1
_GROUP, _CONTAINER, _PARENT = 4, 6, 10
_CLONE_CHILD, _CLONE_FLAGS = 4, 6
_EXEC_PATH: Final = 2
_EXIT_STATUS: Final = 2
#: The last field of each that matters.
_LAST: Final = {START: _CONTEXT, CLONE: _CLONE_FLAGS, EXEC: _EXEC_PATH, EXIT: _EXIT_STATUS}


class MalformedReportError(Exception):
    """No honest sentry sends this."""


class Event(NamedTuple):
    """A report. Process ids are the guest's; `parent` is 0 for what the sentry itself started.

    child, flags: of a clone. path: the resolved file of an execution, "" where the sentry names none. status: wait
    status of an exit. dropped: reports lost since the sandbox began.
    """

    kind: int
    dropped: int
    container: str
    pid: int
    parent: int = 0
    child: int = 0
    flags: int = 0
    path: str = ""
    status: int = 0


def parse(report: memoryview) -> Event:
    """Decode one report. Raises MalformedReportError."""
    if not _HEADER.size <= len(report) <= MAX_REPORT:
        raise MalformedReportError(f"a report of {len(report)} bytes")
    size, kind, dropped = _HEADER.unpack_from(report)
    last = _LAST.get(kind)
    if last is None:
        raise MalformedReportError(f"a report of type {kind}, which was not asked for")
    if not _HEADER.size <= size <= len(report):
        raise MalformedReportError(f"a header of {size} bytes")
    try:
        fields = _fields(report[size:], last)
        context = _fields(_bytes(fields, _CONTEXT), _PARENT)
    except IndexError:
        raise MalformedReportError("a report is cut short") from None
    return Event(
        kind,
        dropped,
        _text(context, _CONTAINER, _ID_MAX),
        _pid(context, _GROUP),
        _pid(context, _PARENT, absent=0),
        child=_pid(fields, _CLONE_CHILD) if kind == CLONE else 0,
        flags=_number(fields, _CLONE_FLAGS) if kind == CLONE else 0,
        path=_text(fields, _EXEC_PATH, _PATH_MAX) if kind == EXEC else "",
        status=_number(fields, _EXIT_STATUS) % _U32 if kind == EXIT else 0,
    )


_Fields = dict[int, int | memoryview]


def _fields(message: memoryview, last: int) -> _Fields:
    """The fields up to number `last`; IndexError where the message ends inside one."""
    found: _Fields = {}
    at, before = 0, 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if number > last:
            break
        if number <= before:
            raise MalformedReportError(f"field {number} after field {before}")
        before = number
        value, at = _varint(message, at)
        if wire == _BYTES:
            if value > len(message) - at:
                raise MalformedReportError(f"a field of {value} bytes in a message of {len(message)}")
            found[number] = message[at : at + value]
            at += value
        elif wire == _VARINT:
            found[number] = value
        else:
            raise MalformedReportError(f"field {number} has wire type {wire}")
    return found


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(_VARINT_MAX):
        byte = message[at + shift]
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value, at + shift + 1
    raise MalformedReportError("a number of more than ten bytes")


def _bytes(fields: _Fields, number: int) -> memoryview:
    value = fields.get(number, b"")
    if isinstance(value, int):
        raise MalformedReportError(f"field {number} is a number")
    return memoryview(value)


def _number(fields: _Fields, number: int) -> int:
    value = fields.get(number, 0)
    if not isinstance(value, int):
        raise MalformedReportError(f"field {number} is no number")
    return value


def _pid(fields: _Fields, number: int, absent: int | None = None) -> int:
    value = _number(fields, number)
    if value == 0 and absent is not None:
        return absent
    if not 0 < value <= _PID_MAX:
        raise MalformedReportError(f"{value} is no process id")
    return value


def _text(fields: _Fields, number: int, limit: int) -> str:
    value = _bytes(fields, number)
    if len(value) > limit:
        raise MalformedReportError(f"field {number} has {len(value)} bytes")
    # A path may hold any byte; Go sends what is not UTF-8 as it is or not at all.
    return bytes(value).decode("utf-8", "backslashreplace")
