"""Between exec.proto's messages and the model. Values out of bounds raise InvalidArgument, naming field and bound."""

from __future__ import annotations  # ValueType exists for the type checker only

from typing import Final

import msgspec

from opensafe._proto.v1 import exec_pb2
from opensafe.errors import InvalidArgument
from opensafe.model.sandbox import Asked, Terminal
from opensafe.state.rows import CallRow

from . import convert

_CALL_STATES: Final = {
    "": exec_pb2.CALL_STATE_UNSPECIFIED,
    "parked": exec_pb2.CALL_STATE_PARKED,
    "running": exec_pb2.CALL_STATE_RUNNING,
    "ended": exec_pb2.CALL_STATE_ENDED,
}
_CALL_STATES_BACK: Final = {value: state for state, value in _CALL_STATES.items()}
#: Highest number of a signal on Linux (SIGRTMAX).
_SIGNAL_MAX: Final = 64
_TAG_MAX: Final = 64
_WALL_MS_MIN: Final = 50


def asked_of(message: exec_pb2.StartCall) -> Asked:
    """What is asked of a call's run. Raises InvalidArgument naming field and bound."""
    if len(message.tag) > _TAG_MAX or not message.tag.isprintable():
        raise InvalidArgument("tag must be printable text", value=message.tag[:200], limit=f"{_TAG_MAX} characters")
    limits = {field.name: value for field, value in message.limits.ListFields()}
    asked = convert.checked("limits", {**limits, "tag": message.tag}, Asked)
    if 0 < asked.wall_ms < _WALL_MS_MIN:
        raise InvalidArgument(
            "limits: a deadline that short can't be held", value=asked.wall_ms, limit=f"{_WALL_MS_MIN} ms or more"
        )
    terminal = terminal_of(message.terminal) if message.HasField("terminal") else None
    return msgspec.structs.replace(asked, terminal=terminal)


def keep_of(message: exec_pb2.StartCall) -> bool:
    """Whether the call outlives its clients. Raises InvalidArgument."""
    match message.on_disconnect:
        case exec_pb2.ON_DISCONNECT_KEEP:
            return True
        case exec_pb2.ON_DISCONNECT_UNSPECIFIED:
            return message.background
        case exec_pb2.ON_DISCONNECT_KILL if not message.background:
            return False
    raise InvalidArgument("on_disconnect is unknown, or KILL for a call in the background", value=message.on_disconnect)


def terminal_of(message: exec_pb2.TerminalSize) -> Terminal:
    """A terminal's size. Raises InvalidArgument."""
    return convert.checked("terminal", {"columns": message.columns, "rows": message.rows}, Terminal)


def signal_of(number: int) -> int:
    """The number of a signal. Raises InvalidArgument."""
    if not 1 <= number <= _SIGNAL_MAX:
        raise InvalidArgument("there is no such signal", value=number, limit=f"1 to {_SIGNAL_MAX}")
    return number


def call_state_of(value: exec_pb2.CallState.ValueType) -> str:
    """The word for it in the index, "" for any. Raises InvalidArgument."""
    state = _CALL_STATES_BACK.get(value)
    if state is None:
        raise InvalidArgument("the state is unknown", value=value)
    return state


def call(row: CallRow, retained_from: int, retained_to: int) -> exec_pb2.Call:
    """A call as the index has it."""
    state = "ended" if row.outcome is not None else "running" if row.allowed_us else "parked"
    return exec_pb2.Call(
        session_id=row.session_id,
        sandbox_id=row.sandbox_id,
        call_id=row.call_id,
        tag=row.tag,
        tool=row.tool,
        state=_CALL_STATES[state],
        decision_id=row.decision_id,
        decided_unix_ns=row.decided_us * 1000,
        outcome=convert.outcome(row.outcome) if row.outcome is not None else None,
        retained_from=retained_from,
        retained_to=retained_to,
        terminal=row.asked.terminal is not None,
        review_id=row.review_id if state == "parked" else "",
    )
