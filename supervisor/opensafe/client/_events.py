"""What happens to a call, in order: Decided, then (if it runs) Started, output in pieces, and always Ended last.

A call that waits for its review is decided twice: parked first, then judged again with the approval.
Output is the guest's bytes, cut anywhere: a piece can end within a character.
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


class Stdout(msgspec.Struct, frozen=True):
    """A piece of standard output."""

    data: bytes


class Stderr(msgspec.Struct, frozen=True):
    """A piece of standard error."""

    data: bytes


class Ended(msgspec.Struct, frozen=True):
    """How the call ended."""

    outcome: Outcome


Event = Decided | Started | Stdout | Stderr | Ended


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """A whole call. stdout and stderr are their first bytes; `*_dropped` counts what the collector left out.

    What the daemon itself did not deliver shows in `outcome.truncated` and its byte counts.
    """

    verdict: Verdict
    outcome: Outcome
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_dropped: int = 0
    stderr_dropped: int = 0
