"""OpenSafe as a sandbox of inspect_ai: `sandbox="opensafe"`, or `sandbox=("opensafe", OpenSafeSandboxConfig(...))`.

Each sample has a session and a sandbox of its own. What policy refuses a sample goes on without: a command ends with
status DENIED or PARKED and says why on stderr, a file operation raises PermissionError, and each such no is one of
`denials()`, for scorers and in the log.
"""

try:
    import inspect_ai as _inspect_ai  # noqa: F401 - whether it is there
except ImportError as error:
    raise ImportError(
        "opensafe.integrations.inspect needs inspect_ai. Install OpenSafe with its extra: opensafe[inspect]"
    ) from error

from ._commands import DENIED, NOT_TAKEN, PARKED, VIOLATION, CommandTimeoutError
from ._config import OpenSafeSandboxConfig, SessionLimits
from ._denials import DENIALS, Denial, denials
from ._environment import OpenSafeSandboxEnvironment
from ._reviewing import ReviewerFailedError
from ._scoring import denial_count

__all__ = [
    "DENIALS",
    "DENIED",
    "NOT_TAKEN",
    "PARKED",
    "VIOLATION",
    "CommandTimeoutError",
    "Denial",
    "OpenSafeSandboxConfig",
    "OpenSafeSandboxEnvironment",
    "ReviewerFailedError",
    "SessionLimits",
    "denial_count",
    "denials",
]
