"""What goes from driver to host and what is known of it, as values that travel between processes."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from opensafe.client import CommandFailed, CommandNotStarted, CommandResult
from opensafe.errors import Denied, OpenSafeError, PolicyError, RequestError, SandboxError


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A claim's session and sandbox on its host."""

    session_id: str
    sandbox_id: str


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One call. options: RunOptions without the call_id. carrier: trace context."""

    call_id: str
    tool: str
    arguments: dict[str, Any]
    options: dict[str, Any]
    carrier: dict[str, str]


class SentCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a claim. state: `sent` (no answer: it ran once at most), `ended` (it ran, and its outcome is known), or
    `not executed` (denied, refused, not started). outcome: in a word, "" where unknown.
    """

    call_id: str
    tool: str
    state: Literal["sent", "ended", "not executed"] = "sent"
    outcome: str = ""


class HostLost(SandboxError):  # noqa: N818 - as in opensafe.errors
    """The host, its daemon or Ray's node is gone, and what ran there with it. calls: what was sent, as far as known.

    sent: whether what was asked for may have arrived.
    """

    reason = "HOST_LOST"
    calls: Sequence[SentCall] = ()
    sent = True


class NoHostLeft(HostLost):
    """No host of the pool answers."""

    reason = "NO_HOST_LEFT"


def answered(call: SentCall, answer: CommandResult | OpenSafeError) -> SentCall:
    """What is known of the call now."""
    replace = msgspec.structs.replace
    match answer:
        case CommandResult():
            return replace(call, state="ended", outcome=answer.outcome.kind.value)
        case Denied() if answer.outcome == "violation":
            return replace(call, state="ended", outcome=answer.outcome)
        case Denied():
            return replace(call, state="not executed", outcome=answer.outcome)
        case HostLost() if not answer.sent:
            return replace(call, state="not executed", outcome=answer.reason.lower())
        case CommandNotStarted() | RequestError() | PolicyError():
            return replace(call, state="not executed", outcome=answer.reason.lower())
        case CommandFailed():
            return replace(call, state="ended", outcome=answer.result.outcome.kind.value)
        case _:  # parked, which may run later; or nobody saw its end
            return replace(call, outcome=answer.reason.lower())
