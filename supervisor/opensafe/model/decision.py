"""A verdict: action, the rules that fired, and the capabilities granted to the run it allows."""

import enum
from typing import Final

import msgspec

from .limits import CallLimits


class Action(enum.StrEnum):
    """block beats review beats allow."""

    ALLOW = "allow"
    REVIEW = "review"
    BLOCK = "block"


class Severity(enum.StrEnum):
    """How grave a rule's firing is."""

    INFO = "info"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


#: Mildest first, as they are declared.
GRAVITY: Final = tuple(Severity)


class RuleHit(msgspec.Struct, frozen=True, kw_only=True):
    """One rule that fired. `reason` names the value, `remedy` the smallest change that would be allowed."""

    id: str
    severity: Severity
    action: Action
    reason: str
    value: str = ""
    remedy: str = ""


class PathGrant(msgspec.Struct, frozen=True, kw_only=True):
    """Roots that the file tools may read and write beneath. A program is bound by mounts, uid and filter instead.

    hold_read, hold_write: patterns of paths, as in ClassTables, that a tree leaves out when it is read or written.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    hold_read: tuple[str, ...] = ()
    hold_write: tuple[str, ...] = ()


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What an allowed run may use: host names, programs ("any" or a list), file roots, seccomp profile, limits, and the
    users beside the sandbox's own that it may run as.
    """

    network: tuple[str, ...] = ()
    programs: str | tuple[str, ...] = ()
    paths: PathGrant = PathGrant()
    seccomp: str = "default"
    limits: CallLimits = CallLimits()
    users: tuple[str, ...] = ()


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one evaluation. `id` and `data_version` are echoes: without them the result is no verdict."""

    action: Action
    rules: tuple[RuleHit, ...]
    grant: Grant
    id: str
    data_version: str
    shadow: tuple[RuleHit, ...] = ()

    def deciding(self) -> tuple[RuleHit, ...]:
        """The rules whose action is the decision's, in order of id."""
        return tuple(sorted((r for r in self.rules if r.action == self.action), key=lambda r: r.id))
