"""The exception tree.

    OpenSafeError
    ├── RequestError            the caller's to mend; nothing was executed
    │   ├── InvalidArgument     schema, NUL, encoding, unparsable message
    │   ├── UnknownTool
    │   ├── NotFound            session, sandbox, call, review (or not this principal's)
    │   ├── Conflict            call_id used for another request, wrong state
    │   ├── SandboxPaused
    │   ├── LimitExceeded       a cap; names it
    │   └── NotPermitted        role missing, own review, foreign permit
    ├── Denied                  policy or a reviewer said no, where an answer was needed; it names the rules
    ├── ReviewPending           parked for a reviewer, where an answer was needed; nothing was executed so far
    ├── FileError               a file operation ran in the guest and could not be done
    │   ├── FileNotFound
    │   ├── FileExists
    │   ├── WrongFileType       a directory, device or link where something else is needed
    │   ├── DirectoryNotEmpty
    │   ├── FileOutside         a link or `..` leads out of the granted root
    │   ├── FileDenied          the guest's own permissions
    │   ├── FileTooLarge
    │   ├── NoSpace
    │   ├── OtherFileSystem
    │   ├── ContentMismatch     the bytes are not those that were declared
    │   ├── BadArchive
    │   └── FileFailed          anything else, such as a deadline
    ├── Unavailable             draining, warden gone; safe to repeat with the same call_id
    ├── SandboxError            the platform failed, not the command
    │   ├── SandboxLost
    │   ├── SandboxStartFailed
    │   ├── NoWarmSandbox       the pool has none ready, and a cold one was not wanted
    │   └── DriverError         the sentry's control socket answered nonsense, too late or not at all
    ├── WardenRefused           an operation without the decision that would allow it
    ├── PolicyError             no verdict: denies
    │   ├── BundleRefused
    │   └── EvaluationFailed
    ├── AuditError              a record can't be written or read: nothing executes
    └── StartError              the daemon refuses to serve
        ├── ConfigError
        ├── StaleIndex          the state index is of another log or version; it is built again
        └── HostUnsuitable      no root, wrong runsc, no namespaces, self-test not passed

A policy's *no* to a call is an Outcome, and no exception on the wire; a typed answer has no place for one, so that
there and in the sandbox API of the client it is Denied. Every message names the value, the limit where there is one,
and the remedy, and is safe to show to the caller.
"""

from collections.abc import Sequence
from typing import Protocol


class Rule(Protocol):
    """A rule that decided; `model.decision.RuleHit` is one."""

    @property
    def id(self) -> str: ...
    @property
    def severity(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def remedy(self) -> str: ...


class OpenSafeError(Exception):
    """Base of all. `value`, `limit` and `remedy` are text for the caller, "" where there is none.

    call_id: of the call that it is about, where the client knows.
    """

    reason = "INTERNAL"
    call_id = ""

    def __init__(self, message: str, *, value: object = "", limit: object = "", remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.value = _short(value)
        self.limit = _short(limit)
        self.remedy = remedy

    @property
    def told(self) -> str:
        """Message, value and limit, for who shows the remedy apart."""
        parts = [self.message]
        if self.value:
            parts.append(f"got {self.value}")
        if self.limit:
            parts.append(f"limit {self.limit}")
        return "; ".join(parts)

    def __str__(self) -> str:
        return f"{self.told}. {self.remedy}" if self.remedy else self.told


class RequestError(OpenSafeError):
    """The request can't be served as it is; nothing was executed."""

    reason = "REQUEST"


class InvalidArgument(RequestError):
    """A field is missing, of the wrong type, badly encoded or unknown."""

    reason = "INVALID_ARGUMENT"


class UnknownTool(RequestError):
    """No tool of that name is registered."""

    reason = "UNKNOWN_TOOL"


class UnknownUser(RequestError):
    """The image has no user of that name or number; the limit names those that it has."""

    reason = "UNKNOWN_USER"


class NotFound(RequestError):
    """No such object, or it belongs to another principal (the two are not told apart)."""

    reason = "NOT_FOUND"


class Conflict(RequestError):
    """The object is in a state, or the id in a use, that excludes this request."""

    reason = "CONFLICT"


class SandboxPaused(RequestError):
    """The sandbox is paused: nothing runs in it until it is resumed."""

    reason = "SANDBOX_PAUSED"


class LimitExceeded(RequestError):
    """A cap was met; `limit` names it."""

    reason = "LIMIT_EXCEEDED"


class NotPermitted(RequestError):
    """The principal may not do this at all."""

    reason = "NOT_PERMITTED"


class Denied(OpenSafeError):
    """Policy or a reviewer said no. `rules` are those that decided; rule, value and remedy are the first one's.

    outcome: `blocked`, `review_rejected`, `review_expired`, or `violation`, which alone means that a program ran.
    """

    reason = "DENIED"

    def __init__(
        self,
        message: str,
        *,
        value: object = "",
        limit: object = "",
        remedy: str = "",
        rules: Sequence[Rule] = (),
        outcome: str = "blocked",
    ) -> None:
        super().__init__(message, value=value, limit=limit, remedy=remedy)
        self.rules = tuple(rules)
        self.outcome = outcome

    @property
    def rule(self) -> str:
        """Id of the first rule that decided, "" where none is known."""
        return self.rules[0].id if self.rules else ""


class ReviewPending(OpenSafeError):
    """The call is parked; `value` is the review's id. Once approved it runs, and its call_id tells how it ended.

    rules: those that parked it, where the client knows them.
    """

    reason = "REVIEW_PENDING"
    rules: tuple[Rule, ...] = ()

    @property
    def review_id(self) -> str:
        """The review's id."""
        return self.value


class FileError(OpenSafeError):
    """A file operation ran in the guest and could not be done. `value` is the path."""

    reason = "FILE"


class FileNotFound(FileError):
    """There is no such file, or a symlink leads to none."""

    reason = "FILE_NOT_FOUND"


class FileExists(FileError):
    """The name is taken, and replacing it was not asked for or is not possible."""

    reason = "FILE_EXISTS"


class WrongFileType(FileError):
    """No regular file, or no directory, where one is needed."""

    reason = "WRONG_FILE_TYPE"


class DirectoryNotEmpty(FileError):
    """The directory is not empty."""

    reason = "DIRECTORY_NOT_EMPTY"


class FileOutside(FileError):
    """A symlink or `..` leads out of the granted root, or a link stands where none is followed."""

    reason = "FILE_OUTSIDE"


class FileDenied(FileError):
    """The guest's own permissions refuse it."""

    reason = "FILE_DENIED"


class FileTooLarge(FileError):
    """A cap on bytes, entries or depth was met."""

    reason = "FILE_TOO_LARGE"


class NoSpace(FileError):
    """The sandbox's file system is full."""

    reason = "NO_SPACE"


class OtherFileSystem(FileError):
    """A name can't be moved to another file system: it has to be copied."""

    reason = "OTHER_FILE_SYSTEM"


class ContentMismatch(FileError):
    """The bytes that came are not those that were declared; the file is as it was."""

    reason = "CONTENT_MISMATCH"


class BadArchive(FileError):
    """The archive is malformed, incomplete, or has names that lead out."""

    reason = "BAD_ARCHIVE"


class FileFailed(FileError):
    """The operation was ended, or the guest's answer is none."""

    reason = "FILE_FAILED"


class Unavailable(OpenSafeError):
    """Not now: the daemon drains or a part of it is gone. Repeat with the same call_id."""

    reason = "UNAVAILABLE"


class SandboxError(OpenSafeError):
    """The sandbox failed, not the command in it."""

    reason = "SANDBOX"


class SandboxLost(SandboxError):
    """The sandbox ended while it was needed; the message names the cause."""

    reason = "SANDBOX_LOST"


class SandboxStartFailed(SandboxError):
    """A sandbox could not be made; whatever had been made of it was removed."""

    reason = "SANDBOX_START_FAILED"


class NoWarmSandbox(SandboxError):
    """The pool has no sandbox of that kind ready, and the request allows no other. Nothing was made."""

    reason = "NO_WARM_SANDBOX"


class DriverError(SandboxError):
    """The runtime's answer was malformed, too large, late or an error."""

    reason = "DRIVER"


class WardenRefused(OpenSafeError):
    """The warden was asked for something that no decision on record allows, or that its protocol can't express."""

    reason = "WARDEN_REFUSED"


class PolicyError(OpenSafeError):
    """There is no verdict, so the call is denied."""

    reason = "POLICY"


class BundleRefused(PolicyError):
    """A bundle was not loaded; the message says which check refused it."""

    reason = "BUNDLE_REFUSED"


class EvaluationFailed(PolicyError):
    """Trap, deadline, memory cap, undefined or malformed result."""

    reason = "EVALUATION_FAILED"


class AuditError(OpenSafeError):
    """The record can't be made durable, or the log is not intact."""

    reason = "AUDIT"


class StartError(OpenSafeError):
    """The daemon does not start."""

    reason = "START"


class ConfigError(StartError):
    """The configuration file is missing, unreadable or has an unknown or impossible setting."""

    reason = "CONFIG"


class StaleIndex(StartError):
    """The state index was folded from another log, from one that was cut, or by another version."""

    reason = "STALE_INDEX"


class HostUnsuitable(StartError):
    """The host lacks what enforcement needs, or the self-test found a layer that does not hold."""

    reason = "HOST_UNSUITABLE"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"
