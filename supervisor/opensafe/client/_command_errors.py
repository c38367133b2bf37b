"""How a command of the sandbox API fails, apart from how a sandbox does and from what policy refuses.

They never travel: the daemon answers with an outcome, and `_result.settle` says which of them it is.
"""

from typing import Any

from opensafe.errors import OpenSafeError, SandboxError

from ._result import CommandResult


class _ResultError(OpenSafeError):
    """An error that carries the result so far, also from one process to another."""

    def __init__(self, message: str, result: CommandResult, *, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.result = result
        self.call_id = result.call_id

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.result), self.__dict__


class CommandFailed(_ResultError):  # noqa: N818 - as in opensafe.errors
    """The command failed: it exited with another status than 0 and was to be checked, or has no status at all.

    result: its output so far; `exit_code` is None where it did not come to an end of its own.
    """

    reason = "COMMAND_FAILED"


class CommandNotStarted(CommandFailed):
    """There was nothing to run: no such program, no such directory. Nothing was executed."""

    reason = "COMMAND_NOT_STARTED"


class CommandTimedOut(CommandFailed):
    """It ran longer than it may, and was killed."""

    reason = "COMMAND_TIMED_OUT"


class OutputLimitExceeded(CommandFailed):
    """It wrote more than it may, and was killed."""

    reason = "OUTPUT_LIMIT_EXCEEDED"


class CommandCancelled(CommandFailed):
    """It was cancelled, by this client, by the loss of it, or by the daemon."""

    reason = "COMMAND_CANCELLED"


class CallLost(_ResultError, SandboxError):  # noqa: N818 - as in opensafe.errors
    """Nobody saw the call's end: sandbox or daemon failed under it. It ran once at most, perhaps in part.

    result: the output so far. Whether the sandbox still stands, its `info` says.
    """

    reason = "CALL_LOST"
