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
    ├── Unavailable             draining, warden gone; safe to repeat with the same call_id
    ├── SandboxError            the platform failed, not the command
    │   ├── SandboxLost
    │   ├── SandboxStartFailed
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

A policy's *no* is not an exception: it is an Outcome. Every message names the value, the limit where there is
one, and the remedy, and is safe to show to the caller.
"""


class OpenSafeError(Exception):
    """Base of all. `value`, `limit` and `remedy` are text for the caller, "" where there is none."""

    reason = "INTERNAL"

    def __init__(self, message: str, *, value: object = "", limit: object = "", remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.value = _short(value)
        self.limit = _short(limit)
        self.remedy = remedy

    def __str__(self) -> str:
        parts = [self.message]
        if self.value:
            parts.append(f"got {self.value}")
        if self.limit:
            parts.append(f"limit {self.limit}")
        text = "; ".join(parts)
        return f"{text}. {self.remedy}" if self.remedy else text


class RequestError(OpenSafeError):
    """The request can't be served as it is; nothing was executed."""

    reason = "REQUEST"


class InvalidArgument(RequestError):
    """A field is missing, of the wrong type, badly encoded or unknown."""

    reason = "INVALID_ARGUMENT"


class UnknownTool(RequestError):
    """No tool of that name is registered."""

    reason = "UNKNOWN_TOOL"


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
