"""Between exec.proto's messages and our own types. A value outside its closed list is refused, never guessed."""

from __future__ import annotations  # ValueType exists for the type checker only

from typing import Any, Final

import msgspec

from opensafe._proto.v1 import exec_pb2
from opensafe.errors import InvalidArgument
from opensafe.model.sandbox import Terminal

from . import _wire
from ._events import Decided, Ended, Event, Gap, Started, Stderr, Stdout, Truncated
from ._types import CallInfo, RunLimits

_CALL_STATES: Final = {
    exec_pb2.CALL_STATE_PARKED: "parked",
    exec_pb2.CALL_STATE_RUNNING: "running",
    exec_pb2.CALL_STATE_ENDED: "ended",
}


def event(message: exec_pb2.ExecResponse) -> Event | None:
    """One message of an Exec stream; None for a keepalive. Raises OpenSafeError where it holds no event of ours."""
    kind = message.WhichOneof("event")
    match kind:
        case "stdout":
            return Stdout(message.stdout, message.offset)
        case "stderr":
            return Stderr(message.stderr, message.offset)
        case "keepalive":
            return None
        case "gap":
            return Gap(message.gap.from_offset, message.gap.to_offset)
        case "truncated":
            cut = message.truncated
            return Truncated(cut.limit, cut.written, cut.delivered)
        case "decided":
            return Decided(_wire.verdict(message.decided))
        case "started":
            return Started(message.started.exec_id, message.started.call_id)
        case "outcome":
            return Ended(_wire.outcome(message.outcome))
    return _wire.strange("event", kind)


def start_call(*, terminal: Terminal | None, limits: RunLimits, **fields: Any) -> exec_pb2.StartCall:  # noqa: ANN401 - StartCall's other fields
    """The message that starts a call. Raises InvalidArgument for a number that no wire carries."""
    try:
        start = exec_pb2.StartCall(limits=exec_pb2.CallLimits(**msgspec.structs.asdict(limits)), **fields)
        if terminal is not None:
            start.terminal.CopyFrom(exec_pb2.TerminalSize(columns=terminal.columns, rows=terminal.rows))
    except ValueError as error:
        raise InvalidArgument(f"the call can't be sent: {error}", value=limits) from error
    return start


def attach_call(session_id: str, call_id: str, tag: str, offset: int, *, wait_for_review: bool) -> exec_pb2.AttachCall:
    """The message that attaches to a call. Raises InvalidArgument as `start_call`."""
    named = {"call_id": call_id} if call_id else {"tag": tag}
    try:
        return exec_pb2.AttachCall(session_id=session_id, offset=offset, wait_for_review=wait_for_review, **named)
    except ValueError as error:
        raise InvalidArgument(f"the offset can't be sent: {error}", value=offset) from error


def call(message: exec_pb2.Call) -> CallInfo:
    """A call as the daemon lists it. Raises OpenSafeError where its state is none of ours."""
    return CallInfo(
        session_id=message.session_id,
        sandbox_id=message.sandbox_id,
        call_id=message.call_id,
        tag=message.tag,
        tool=message.tool,
        state=_CALL_STATES.get(message.state) or _wire.strange("state of a call", message.state),
        decision_id=message.decision_id,
        decided_unix_ns=message.decided_unix_ns,
        outcome=_wire.outcome(message.outcome) if message.HasField("outcome") else None,
        retained_from=message.retained_from,
        retained_to=message.retained_to,
        terminal=message.terminal,
        review_id=message.review_id,
    )


def call_state(word: str) -> exec_pb2.CallState.ValueType:
    """The wire's word for a state, "" for any. Raises InvalidArgument."""
    if not word:
        return exec_pb2.CALL_STATE_UNSPECIFIED
    for number, state in _CALL_STATES.items():
        if state == word:
            return number
    raise InvalidArgument("there is no such state of a call", value=word, limit=", ".join(_CALL_STATES.values()))
