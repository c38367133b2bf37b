"""What the executor of system call sequences is given and gives back: the host's end of native/guest/sequence.h."""

import struct
from collections.abc import Iterable
from typing import Final

import msgspec

from opensafe.errors import DriverError

ARENA: Final = 0x20000000
IMAGE_BYTES: Final = 16384
LANDING_BYTES: Final = 16384
LANDING: Final = ARENA + IMAGE_BYTES
CALLS_MAX: Final = 64
POKES_MAX: Final = 16
ARGUMENTS: Final = 6
#: The executor's patience, which a sequence's own time has to be under.
PATIENCE_US: Final = 400_000

_MAGIC: Final = 0x5153534F
_BEGUN: Final = 0x4E474542
_ENDED: Final = 0x53444E45
_WORD: Final = (1 << 64) - 1
_HEAD: Final = struct.Struct("<II")
_SEQUENCE: Final = struct.Struct("<IHHII")
_POKE: Final = struct.Struct("<QQ")
_CALL: Final = struct.Struct("<II6Q")
_BEGUN_RECORD: Final = struct.Struct("<II")
_ENDED_RECORD: Final = struct.Struct("<IIiHHII")
#: Of a child that got rid of its timer and was killed.
KILLED: Final = -1


class SystemCall(msgspec.Struct, frozen=True, array_like=True):
    """One call. earlier: bit N says that argument N is the number of an earlier call, whose result is meant."""

    number: int
    arguments: tuple[int, ...] = ()
    earlier: int = 0


class Sequence(msgspec.Struct, frozen=True, array_like=True):
    """Calls made by one process. pokes: offsets in the image, and the eight bytes that stand there for this one."""

    calls: tuple[SystemCall, ...]
    pokes: tuple[tuple[int, int], ...] = ()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a sequence. status: of wait4(2), or KILLED. made: calls that began."""

    id: int
    status: int
    made: int
    results: tuple[int, ...]


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """Of one run of the executor. under_way: the sequence that began and has no answer; None: there is none."""

    answers: tuple[Answer, ...]
    under_way: int | None


def encode(image: bytes, sequences: Iterable[tuple[int, Sequence]], limit_us: int) -> bytes:
    """The executor's input: sequences with their ids. limit_us: of each, under PATIENCE_US. Raises ValueError."""
    if not 0 < limit_us < PATIENCE_US:
        raise ValueError(f"{limit_us} us are none, or beyond {PATIENCE_US}")
    parts = [_HEAD.pack(_MAGIC, len(image)), image]
    for number, sequence in sequences:
        parts.append(_SEQUENCE.pack(number, len(sequence.calls), len(sequence.pokes), limit_us, 0))
        parts += [_POKE.pack(offset, value & _WORD) for offset, value in sequence.pokes]
        parts += [_encoded(call) for call in sequence.calls]
    return b"".join(parts)


def decode(output: bytes) -> Answers:
    """The executor's records, as far as they go. Raises DriverError for what it does not write."""
    answers: list[Answer] = []
    under_way, at = None, 0
    while len(output) - at >= _BEGUN_RECORD.size:
        kind, number = _BEGUN_RECORD.unpack_from(output, at)
        if kind == _BEGUN:
            under_way, at = number, at + _BEGUN_RECORD.size
            continue
        if kind != _ENDED or number != under_way:
            raise DriverError("the executor's output is malformed", value=f"record {kind:#x} at {at}")
        if len(output) - at < _ENDED_RECORD.size:
            break
        _, _, status, made, done, landed, _ = _ENDED_RECORD.unpack_from(output, at)
        if done > made or made > CALLS_MAX or landed > LANDING_BYTES:
            raise DriverError("the executor's output is malformed", value=f"{done} of {made} calls, {landed} bytes")
        results_at = at + _ENDED_RECORD.size
        landed_at = results_at + 8 * done
        if len(output) < landed_at + landed:
            break
        results = struct.unpack_from(f"<{done}q", output, results_at)
        answers.append(Answer(id=number, status=status, made=made, results=results))
        under_way, at = None, landed_at + landed
    return Answers(answers=tuple(answers), under_way=under_way)


def _encoded(call: SystemCall) -> bytes:
    words = [word & _WORD for word in call.arguments]
    return _CALL.pack(call.number, call.earlier, *words, *([0] * (ARGUMENTS - len(words))))
