"""What happens to a call, in order: Decided, then (if it runs) Started, output in pieces, and always Ended last.

A call that waits for its review is decided twice: parked first, then judged again with the approval.
Output is the guest's bytes, cut anywhere: a piece can end within a character. Offsets count the bytes of both streams;
what the daemon no longer has is a Gap, never silence.
"""

import msgspec

from opensafe.model.outcome import Outcome

from ._types import Verdict


class Decided(msgspec.Struct, frozen=True):
    """Policy has judged the call and the record is durable."""

    verdict: Verdict


class Started(msgspec.Struct, frozen=True):
    """The program was handed to the sandbox."""

    exec_id: str
    call_id: str = ""


class Stdout(msgspec.Struct, frozen=True):
    """A piece of standard output, and of a terminal's all there is; `offset`: bytes of both streams before it."""

    data: bytes
    offset: int = 0


class Stderr(msgspec.Struct, frozen=True):
    """A piece of standard error."""

    data: bytes
    offset: int = 0


class Gap(msgspec.Struct, frozen=True):
    """Bytes [start, end) of both streams were written and are not delivered here: they are no longer retained."""

    start: int
    end: int


class Truncated(msgspec.Struct, frozen=True):
    """The call met its output limit, in bytes of both streams. written: before it was killed; delivered: its head."""

    limit: int
    written: int
    delivered: int


class Ended(msgspec.Struct, frozen=True):
    """How the call ended."""

    outcome: Outcome


Event = Decided | Started | Stdout | Stderr | Gap | Truncated | Ended


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """A whole call. stdout and stderr are their first bytes; `*_dropped` counts what the collector left out.

    missed: bytes of both streams in gaps. What the daemon itself did not deliver shows in `outcome.truncated`, too.
    """

    verdict: Verdict
    outcome: Outcome
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_dropped: int = 0
    stderr_dropped: int = 0
    missed: int = 0
