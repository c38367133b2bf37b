"""How a command of the sandbox API fails, apart from how a sandbox does and from what policy refuses.

They never travel: the daemon answers with an outcome, and `_result.settle` says which of them it is.
"""

from opensafe.errors import OpenSafeError, SandboxError

from ._result import CommandResult


class CommandFailed(OpenSafeError):  # noqa: N818 - as in opensafe.errors
    """The command failed: it exited with another status than 0 and was to be checked, or has no status at all.

    result: its output so far; `exit_code` is None where it did not come to an end of its own.
    """

    reason = "COMMAND_FAILED"

    def __init__(self, message: str, result: CommandResult, *, value: object = "", remedy: str = "") -> None:
        super().__init__(message, value=value, remedy=remedy)
        self.result = result
        self.call_id = result.call_id


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


class CallLost(SandboxError):  # noqa: N818 - as in opensafe.errors
    """Nobody saw the call's end: sandbox or daemon failed under it. It ran once at most, perhaps in part.

    result: the output so far. Whether the sandbox still stands, its `info` says.
    """

    reason = "CALL_LOST"

    def __init__(self, message: str, result: CommandResult, *, value: object = "", remedy: str = "") -> None:
        super().__init__(message, value=value, remedy=remedy)
        self.result = result
        self.call_id = result.call_id
