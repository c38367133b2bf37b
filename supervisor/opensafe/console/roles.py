"""What a principal's roles let it do here; the daemon decides anew about whatever it is asked."""

from collections.abc import Sequence
from typing import Final

from opensafe.client import Client, DaemonStatus
from opensafe.errors import NotPermitted

REVIEWER: Final = ("reviewer",)
AUDITOR: Final = ("auditor",)
#: Who may have a bundle put in force by the console's own rights; who may have one judge along.
ACTIVATING: Final = ("operator",)
SHADOWING: Final = ("operator", "reviewer")
#: Who may try bundles, see reports of proof and start runs: those who look after the daemon or its record, or decide.
STAFF: Final = ("operator", "reviewer", "auditor")


def may(status: DaemonStatus | None, roles: Sequence[str]) -> bool:
    """Whether the principal that the daemon told this has one of the roles."""
    return status is not None and not set(roles).isdisjoint(status.roles)


async def require(client: Client, roles: Sequence[str]) -> None:
    """Ask the daemon. Raises NotPermitted unless the principal has one of the roles."""
    status = await client.status()
    if not may(status, roles):
        raise NotPermitted(
            "your principal has none of the roles for it",
            value=", ".join(status.roles) or "none",
            limit=" or ".join((", ".join(roles[:-1]), roles[-1])) if len(roles) > 1 else roles[0],
            remedy="Sign in as a principal that has one.",
        )
