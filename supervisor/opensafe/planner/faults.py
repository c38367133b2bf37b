"""What an error means to a run: the model is told, it is tried again, or the run ends.

Only what the daemon declares safe to repeat is repeated, under the same call_id.
"""

from opensafe.errors import (
    Conflict,
    InvalidArgument,
    LimitExceeded,
    NotFound,
    NotPermitted,
    NoWarmSandbox,
    OpenSafeError,
    SandboxError,
    SandboxPaused,
    Unavailable,
    UnknownTool,
    UnknownUser,
)

from .limits import Backoff, Limits
from .state import RunState

#: What `kind_of` answers besides the names of Backoffs.
TELL, FATAL = "tell", "fatal"


class ModelError(OpenSafeError):
    """The chat model failed. passing: it may answer when it is asked again."""

    reason = "MODEL"

    def __init__(self, message: str, *, passing: bool) -> None:
        super().__init__(message)
        self.passing = passing


def kind_of(error: OpenSafeError, state: RunState) -> str:
    """Name of the Backoff in Limits by which the step is tried again, TELL or FATAL."""
    match error:
        case ModelError():
            return "model" if error.passing else FATAL
        case Unavailable() | NoWarmSandbox() | SandboxPaused():
            return "unavailable"
        case LimitExceeded():
            return "crowded"
        case NotFound() | Conflict() if error.value == state["sandbox_id"]:
            return "sandbox"
        case SandboxError():
            return "sandbox"
        case NotFound() if error.value == state["session_id"]:
            return FATAL
        case InvalidArgument() | UnknownTool() | UnknownUser() | NotFound() | Conflict() | NotPermitted():
            return TELL
        case _:
            return FATAL


def backoff(limits: Limits, kind: str) -> Backoff:
    """The Backoff of that name."""
    found: Backoff = getattr(limits, kind)
    return found


def model_error(error: Exception) -> ModelError:
    """What a provider's exception means: a lost connection, a time-out, HTTP 408, 409, 429 and 5xx may pass."""
    status = getattr(error, "status_code", None) or getattr(getattr(error, "response", None), "status_code", None)
    passing = isinstance(error, (ConnectionError, TimeoutError))
    if isinstance(status, int):
        passing = status in (408, 409, 429) or status >= 500
    elif not passing:  # providers wrap their HTTP library's exceptions, which are named so
        names = {kind.__name__ for kind in type(error).__mro__}
        passing = bool(names & {"APIConnectionError", "APITimeoutError", "TransportError"})
    return ModelError(f"the model failed: {type(error).__name__}: {str(error)[:500]}", passing=passing)
