"""F13: what the warden and its helper read of processes that an attacker may own: requests of the front, answers on a
sentry's control socket, reports of its monitor. Each becomes a bounded value, or the one error that ends the peer.

References: the value that was encoded, an encoder of protobuf written here, Python's json module.
"""

import asyncio
import contextlib
import functools
import json
import re
import socket
import struct
from typing import Any, Final

import msgspec

from opensafe.errors import DriverError
from opensafe.model.calls import Program
from opensafe.model.canonical import NotCanonicalError
from opensafe.model.limits import CallLimits
from opensafe.model.sandbox import Launch, SandboxSpec
from opensafe.monitor import events
from opensafe.proof.fuzzing import values
from opensafe.proof.fuzzing.draw import Draw
from opensafe.proof.fuzzing.target import Target, holds
from opensafe.proof.mutants import Mutant
from opensafe.warden import protocol
from opensafe.warden.sandbox import control

_ANSWER_MAX: Final = 256
_REF: Final = protocol.RecordRef(segment=0, offset=0, length=10, leaf="0" * 64)
_LAUNCH: Final = Launch(
    sandbox_id="sb-0123456789abcdef0123", exec_id="ex-0123456789abcdef0123", profile="default", limits=CallLimits(),
    program=Program(argv=("id",), env={"A": "1"}, cwd="/workspace"),
)  # fmt: skip
_REQUESTS: Final[tuple[Any, ...]] = (
    protocol.CreateSandbox(request=1, spec=SandboxSpec(sandbox_id="sb-0123456789abcdef0123"), decision=_REF),
    protocol.Start(request=2, launch=_LAUNCH, decision=_REF),
    protocol.Vet(request=3, addresses=("8.8.8.8",), seconds=60),
    protocol.FindUser(request=4, user="root"),
    protocol.NextConnections(request=5, after=0),
)
_decoder: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(protocol.Request)
_ID: Final = re.compile(r"[a-z]{2,8}-[0-9a-f]{20}")


def one(data: bytes) -> None:
    """Read one message of one of the three."""
    draw = Draw(data)
    match draw.number(0, 5):
        case 0:
            _request(draw.rest())
        case 1:
            request = values.edited(draw, msgspec.to_builtins(draw.pick(_REQUESTS)))
            with contextlib.suppress(OverflowError):  # no number of MessagePack
                _request(msgspec.msgpack.encode(request))
        case 2:
            _report(draw.rest())
        case 3:
            _made_report(draw)
        case 4:
            _answer(draw.rest())
        case _:
            _answer(values.spelled(draw, ("success", "err", "result"), ("", "x")).encode("utf-8", "replace"))


def _request(packet: bytes) -> None:
    try:
        request = _decoder.decode(packet)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    encoded = msgspec.msgpack.encode(request)
    holds(_decoder.decode(encoded) == request, "a request is read the same again", request)
    known = msgspec.to_builtins(request).keys()
    sent = msgspec.msgpack.decode(packet)
    holds(isinstance(sent, dict) and sent.keys() <= known, "nothing unknown is let through", (sent, request))
    match request:
        case protocol.CreateSandbox():
            spec = request.spec
            holds(re.fullmatch(r"[a-z][a-z0-9-]{0,31}", spec.template), "a template is a name", spec)
            holds(re.fullmatch(r"(?:sha256:[0-9a-f]{64})?", spec.image_digest), "an image is known by its digest", spec)
            holds(64 <= spec.limits.pids <= 32768, "no limit means none", spec.limits)
            holds(spec.limits.memory_bytes >= 64 << 20, "no limit means none", spec.limits)
            _digest(spec)
        case protocol.Start():
            limits = request.launch.limits
            holds(50 <= limits.wall_ms <= 3_600_000, "a deadline has its bounds", limits)
            holds(1 <= limits.processes <= 4096 and limits.open_files >= 16, "no limit means none", limits)
            _digest(request.launch)
        case protocol.Vet():
            holds(1 <= len(request.addresses) <= 32, "the filter is told of few at once", request)
            holds(1 <= request.seconds <= 3600, "nothing is let through for ever", request)
        case _:
            pass
    decision = getattr(request, "decision", None)
    if decision is not None:
        holds(re.fullmatch(r"[0-9a-f]{64}", decision.leaf), "a leaf is a hash", decision)
        holds(decision.offset >= 0 and 1 <= decision.length <= 64 << 20, "a record has a place and an end", decision)


def _digest(subject: SandboxSpec | Launch) -> None:
    try:
        found = subject.subject_digest()
    except NotCanonicalError:
        return
    again = msgspec.json.decode(msgspec.json.encode(subject), type=type(subject))
    holds(again.subject_digest() == found, "the digest is that of what is recorded", subject)


# Reports


def _report(data: bytes) -> events.Event | None:
    try:
        event = events.parse(memoryview(data))
    except events.MalformedReportError:
        return None
    holds(event.kind in (1, 2, 3, 4), "only what was asked for is read", event)
    holds(0 < event.pid <= 1 << 22 and 0 <= event.parent <= 1 << 22, "a process has an id", event)
    holds(len(event.container) <= 4 * 64, "a container's id is short", event)
    holds(len(event.path) <= 4 * 4096, "a path is one", event)
    holds(0 <= event.status < 1 << 32 and 0 <= event.flags < 1 << 70, "numbers are bounded", event)
    return event


def _made_report(draw: Draw) -> None:
    """A report as a sentry writes it, and the same with a byte changed or its end cut off."""
    kind, pid, parent = draw.number(1, 4), draw.number(1, 1 << 20), draw.number(0, 1 << 20)
    container, path, number = draw.data(20).hex(), draw.data(40), draw.number(1, 1 << 20)
    inner = _field(1, 7) + _field(4, pid) + _field(6, container.encode()) + _field(10, parent)
    own = {1: b"", 2: _field(4, number) + _field(6, number), 3: _field(2, path), 4: _field(2, number)}[kind]
    message = _field(1, inner) + own + _field(15, b"behind")
    dropped = draw.number(0, 1 << 20)
    report = struct.pack("<HHI", 8, kind, dropped) + message
    event = _report(report)
    if event is None:
        holds(False, "what an honest sentry sends is read", report)
        return
    holds(
        (event.kind, event.dropped, event.container) == (kind, dropped, container), "a report says what was sent", event
    )
    holds((event.pid, event.parent) == (pid, parent), "a process is the one that was sent", event)
    shown = {
        1: True, 2: (event.child, event.flags) == (number, number),
        3: event.path == path.decode("utf-8", "backslashreplace"), 4: event.status == number,
    }  # fmt: skip
    holds(shown[kind], "an event is the one that was sent", (event, number, path))
    place = draw.number(0, len(report) - 1)
    _report(report[:place] + draw.data(4) + report[place + draw.number(0, 4) :])
    behind = report + _field(draw.number(1, 14), draw.data(8))
    unordered = _report(behind)
    holds(unordered is None or unordered == event, "nothing behind the end takes the place of what was read", behind)
    twice = _field(1, inner) + _field(1, inner.replace(_field(4, pid), _field(4, pid % 99 + 1), 1)) + own
    holds(_report(report[:8] + twice) is None, "a field stands once", twice)


def _varint(value: int) -> bytes:
    made = b""
    while value > 0x7F:
        made += bytes([value & 0x7F | 0x80])
        value >>= 7
    return made + bytes([value])


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value) if value else b""
    return _varint(number << 3 | 2) + _varint(len(value)) + value if value else b""


# Answers


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def close() -> None:
    """End the event loop."""
    if _loop.cache_info().currsize:
        _loop().close()
        _loop.cache_clear()


def _answer(data: bytes) -> None:
    theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.setblocking(False)
    connection = control.Connection(ours, 5.0)
    with theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        try:
            result = _loop().run_until_complete(
                asyncio.wait_for(connection.answer("m", int, answer_max=_ANSWER_MAX), 5.0)
            )
        except DriverError:
            return
        finally:
            connection.close()
    holds(len(data) <= _ANSWER_MAX, "an answer is bounded", len(data))
    said = json.loads(data)
    holds(said["success"] is True, "what was refused is not taken for done", data)
    holds(type(said["result"]) is int and said["result"] == result, "the result is as sent", data)


_JSON: Final = (
    b'{"success": true, "err": "", "result": 7}', b'{"success": false, "err": "no", "result": 7}', b'{"success": true}',
    b'{"success": true, "result": "7"}', b'{"success": 1, "result": 7}', b"{", b"[]",
    b'{"success": true, "result": ' + b" " * 300 + b"7}",
)  # fmt: skip


def seeds() -> list[bytes]:
    """Each message as it is, changed, and cut."""
    requests = [b"\0" + msgspec.msgpack.encode(request) for request in _REQUESTS]
    changed = [bytes([1, at, *range(step, step + 9)]) for at in range(len(_REQUESTS)) for step in range(4)]
    reports = [bytes([3, kind, 0, 0, kind + 3, *range(40)]) for kind in range(4)]
    raw = b"\2" + struct.pack("<HHI", 8, 4, 0) + _field(1, _field(4, 3)) + _field(2, 256)
    return (
        requests
        + changed
        + reports
        + [raw]
        + [b"\4" + text for text in _JSON]
        + [bytes([5, *range(k, k + 9)]) for k in range(4)]
    )


_EVENTS: Final = "monitor/events.py"
_CONTROL: Final = "warden/sandbox/control.py"
TARGET: Final = Target(
    id="F13",
    title="the warden's peers: requests, control-socket answers, monitor reports",
    one=one,
    seeds=seeds,
    close=close,
    modules=("opensafe.monitor", "opensafe.warden.sandbox.control", "opensafe.warden.protocol", "opensafe.model"),
    floor=80,
    longest=1024,
    mutants=(
        Mutant(
            id="F13-unknown", file="warden/protocol.py",
            old="class _Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):",
            new="class _Message(msgspec.Struct, frozen=True, kw_only=True, tag=True):",
            says="fields that nobody knows are passed over",
        ),
        Mutant(
            id="F13-order", file=_EVENTS, old="if number <= before:", new="if False:",
            says="a field that stands twice is read from its second place",
        ),
        Mutant(
            id="F13-pid", file=_EVENTS, old="if not 0 < value <= _PID_MAX:", new="if False:",
            says="any number is a process id",
        ),
        Mutant(
            id="F13-cut", file=_EVENTS, old="    except IndexError:\n", new="    except ZeroDivisionError:\n",
            says="a report that is cut short raises what nobody expects",
        ),
        Mutant(
            id="F13-answer", file=_CONTROL, old="if len(received) > answer_max:", new="if False:",
            says="an answer has no bound",
        ),
        Mutant(
            id="F13-refused", file=_CONTROL, old="        if not answer.success:", new="        if answer.err:",
            says="an answer without success is taken for one",
        ),
        Mutant(
            id="F13-malformed", file=_CONTROL, old="except (msgspec.DecodeError, RecursionError) as error:",
            new="except RecursionError as error:",
            says="a result of another type raises what nobody expects",
        ),
    ),
)  # fmt: skip
