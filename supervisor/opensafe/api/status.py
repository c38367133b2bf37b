"""The one table from errors to gRPC status; handlers.py applies it.

The status carries google.rpc.ErrorInfo (domain `opensafe`, reason as errors.py has it, value, limit and remedy as
metadata, of a denial its rules as JSON and its outcome, too). What is not in the table is INTERNAL with a fixed text:
its cause is for the log, not for the client.
"""

from typing import Final

import msgspec
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2  # type: ignore[import-untyped]  # ships no types

from opensafe import errors

DOMAIN: Final = "opensafe"

#: Most derived first: the first match counts.
TABLE: Final[tuple[tuple[type[errors.OpenSafeError], int], ...]] = (
    (errors.InvalidArgument, code_pb2.INVALID_ARGUMENT),
    (errors.UnknownTool, code_pb2.INVALID_ARGUMENT),
    (errors.UnknownUser, code_pb2.INVALID_ARGUMENT),
    (errors.NotFound, code_pb2.NOT_FOUND),
    (errors.SandboxPaused, code_pb2.FAILED_PRECONDITION),
    (errors.Conflict, code_pb2.ALREADY_EXISTS),
    (errors.LimitExceeded, code_pb2.RESOURCE_EXHAUSTED),
    (errors.NotPermitted, code_pb2.PERMISSION_DENIED),
    (errors.RequestError, code_pb2.INVALID_ARGUMENT),
    (errors.Denied, code_pb2.PERMISSION_DENIED),
    (errors.ReviewPending, code_pb2.FAILED_PRECONDITION),
    (errors.FileNotFound, code_pb2.NOT_FOUND),
    (errors.FileExists, code_pb2.ALREADY_EXISTS),
    (errors.FileOutside, code_pb2.PERMISSION_DENIED),
    (errors.FileDenied, code_pb2.PERMISSION_DENIED),
    (errors.FileTooLarge, code_pb2.RESOURCE_EXHAUSTED),
    (errors.NoSpace, code_pb2.RESOURCE_EXHAUSTED),
    (errors.ContentMismatch, code_pb2.INVALID_ARGUMENT),
    (errors.BadArchive, code_pb2.INVALID_ARGUMENT),
    (errors.FileFailed, code_pb2.ABORTED),
    (errors.FileError, code_pb2.FAILED_PRECONDITION),
    (errors.Unavailable, code_pb2.UNAVAILABLE),
    (errors.SandboxLost, code_pb2.ABORTED),
    (errors.SandboxError, code_pb2.UNAVAILABLE),
    (errors.WardenRefused, code_pb2.PERMISSION_DENIED),
    (errors.PolicyError, code_pb2.PERMISSION_DENIED),
    (errors.AuditError, code_pb2.UNAVAILABLE),
)
#: Most bytes of rules: a status travels in headers, of which gRPC takes 8 KiB.
_RULES_MAX: Final = 3072
UNKNOWN_TEXT: Final = "internal error; the daemon's log has its cause"


def to_status(error: BaseException) -> status_pb2.Status:
    """The status of `error`, as google.rpc.Status."""
    if isinstance(error, errors.OpenSafeError):
        for kind, code in TABLE:
            if isinstance(error, kind):
                info = error_details_pb2.ErrorInfo(
                    reason=error.reason,
                    domain=DOMAIN,
                    metadata={
                        "message": error.message,
                        "value": error.value,
                        "limit": error.limit,
                        "remedy": error.remedy,
                        **_denial(error),
                    },
                )
                detail = any_pb2.Any()
                detail.Pack(info)
                return status_pb2.Status(code=code, message=str(error), details=[detail])
    return status_pb2.Status(code=code_pb2.INTERNAL, message=UNKNOWN_TEXT)


def _denial(error: errors.OpenSafeError) -> dict[str, str]:
    if not isinstance(error, errors.Denied) or not error.rules:
        return {}
    rules: list[msgspec.Raw] = []
    left = _RULES_MAX
    for rule in error.rules:
        text = msgspec.json.encode(rule)
        left -= len(text)
        if left < 0:
            break
        rules.append(msgspec.Raw(text))
    return {"outcome": error.outcome, "rules": msgspec.json.encode(rules).decode()}
