"""What a command leaves: its output as text and bytes, and its exit status."""

import msgspec

from opensafe.model.outcome import Outcome

from ._events import CallResult
from ._types import Verdict


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of output. text: its characters, of which none is cut; bytes that are no UTF-8 become U+FFFD.

    stream: `stdout` or `stderr`. missed: bytes of both streams right before it that are no longer to be had.
    """

    stream: str
    data: bytes
    text: str
    missed: int = 0


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """A command that ended. exit_code: its status, or -N where signal N ended it; None in a CommandFailed alone.

    stdout, stderr: text, with U+FFFD for what is no UTF-8; the bytes beside it. dropped: bytes of both streams that the
    client did not keep, or that the daemon no longer had.
    """

    call_id: str
    exit_code: int | None
    stdout_bytes: bytes
    stderr_bytes: bytes
    dropped: int
    verdict: Verdict
    outcome: Outcome

    @property
    def stdout(self) -> str:
        """Standard output, and of a terminal's all there is."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """Standard error."""
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def ok(self) -> bool:
        """Whether it exited with 0."""
        return self.exit_code == 0

    @property
    def truncated(self) -> bool:
        """Whether this is not all that the command wrote."""
        return self.dropped > 0 or self.outcome.truncated


def command_result(call_id: str, call: CallResult) -> CommandResult:
    """The whole call as a command's result."""
    outcome = call.outcome
    signalled = None if outcome.signal is None else -outcome.signal
    return CommandResult(
        call_id=call_id,
        exit_code=outcome.exit_code if outcome.exit_code is not None else signalled,
        stdout_bytes=call.stdout,
        stderr_bytes=call.stderr,
        dropped=call.stdout_dropped + call.stderr_dropped + call.missed,
        verdict=call.verdict,
        outcome=outcome,
    )
