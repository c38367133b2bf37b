"""What a model is told of its call. Policy's no, a failed command and a failed sandbox each ask for another next step,
so that they begin with other words; and each text says whether anything was executed.
"""

from enum import StrEnum
from typing import Final

import msgspec

from opensafe.client import CallLost, CommandFailed, CommandNotStarted, CommandResult
from opensafe.errors import (
    Denied,
    FileError,
    OpenSafeError,
    PolicyError,
    RequestError,
    ReviewPending,
    SandboxError,
)

#: Characters of output that a model is shown unless it is said otherwise: the head and the end of what is longer.
SHOWN: Final = 30_000


class Status(StrEnum):
    """How a model's call ended. OK: done, by a command with exit status 0. FAILED: the command's or operation's own
    failure. DENIED: policy's or a reviewer's no. PENDING: it waits for a reviewer. REFUSED: it was malformed, and not
    taken. UNAVAILABLE: sandbox or daemon failed.
    """

    OK = "ok"
    FAILED = "failed"
    DENIED = "denied"
    PENDING = "pending"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a model's call. text: for the model. result: of a command that ran. error: what was raised, of
    which Denied has the rules.
    """

    status: Status
    text: str
    result: CommandResult | None = None
    error: OpenSafeError | None = None

    @property
    def ok(self) -> bool:
        """Whether what was asked for is done."""
        return self.status is Status.OK


def of_value(value: CommandResult | str, shown: int) -> Answer:
    """A call that came to its end."""
    if isinstance(value, str):
        return Answer(status=Status.OK, text=_cut(value, shown))
    status = Status.OK if value.ok else Status.FAILED
    return Answer(status=status, text=_command(value, _how(value), shown), result=value)


def of_error(error: OpenSafeError, shown: int) -> Answer:
    """A call that did not."""
    status = _status(error)
    result = error.result if isinstance(error, (CommandFailed, CallLost)) else None
    text = _cut(_texts(error), shown)
    if result is not None and (result.stdout_bytes or result.stderr_bytes):
        text = _command(result, text, shown)
    return Answer(status=status, text=text, result=result, error=error)


def refused(why: str) -> Answer:
    """A call that was not sent."""
    return Answer(status=Status.REFUSED, text=f"The call was not sent, and nothing was executed: {why}")


def _status(error: OpenSafeError) -> Status:
    match error:
        case Denied() | PolicyError():
            return Status.DENIED
        case ReviewPending():
            return Status.PENDING
        case CommandFailed() | FileError():
            return Status.FAILED
        case RequestError():
            return Status.REFUSED
        case _:
            return Status.UNAVAILABLE


def _texts(error: OpenSafeError) -> str:
    match error:
        case Denied():
            return _denial(error)
        case ReviewPending():
            return (
                f"Not executed so far: {error.message} (review {error.review_id}). Don't send the call again; do "
                f"something else meanwhile. `resume` with call_id {error.call_id} tells what became of it."
            )
        case CommandNotStarted():
            return f"The command was not started, and nothing was executed: {error}"
        case CommandFailed() | FileError():
            return f"{str(error)[:1].upper()}{str(error)[1:]}"
        case RequestError():
            return f"The call was not taken, and nothing was executed: {error}"
        case CallLost():
            return f"The sandbox failed, not your command, which ran in part perhaps: {error}"
        case SandboxError():
            return f"The sandbox failed, not your command: {error}"
        case _:
            return f"The sandbox can't be used now; the call was executed once at most: {error}"


def _denial(error: Denied) -> str:
    lines = ["Denied. Nothing was executed, and the same call will be denied again."]
    if error.outcome == "violation":
        lines = ["The command was killed: it ran, and did what policy forbids."]
    for rule in error.rules:
        lines.append(f"rule {rule.id}: {rule.reason}")
        if rule.value:
            lines.append(f"  value: {rule.value}")
        if rule.remedy:
            lines.append(f"  remedy: {rule.remedy}")
    if not error.rules or error.outcome not in ("blocked", "violation"):
        lines.insert(1, error.message if error.rules else str(error))
    return "\n".join(lines)


def _how(result: CommandResult) -> str:
    if result.exit_code is not None and result.exit_code < 0:
        return f"It was ended by signal {-result.exit_code}."
    return f"It exited with {result.exit_code}."


def _command(result: CommandResult, how: str, shown: int) -> str:
    if result.ok and not result.stderr_bytes and not result.truncated:
        return _cut(result.stdout, shown) or "[no output]"
    parts = [how]
    parts += [
        f"--- {name} ---\n{_cut(text, shown)}"
        for name, text in (("stdout", result.stdout), ("stderr", result.stderr))
        if text
    ]
    if result.truncated:
        parts.append("[this is not all that it wrote; what is missing was dropped]")
    return "\n".join(parts)


def _cut(text: str, shown: int) -> str:
    if len(text) <= shown:
        return text
    half = max(shown // 2, 1)
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters are left out …]\n{text[-half:]}"
