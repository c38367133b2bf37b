"""What a principal's roles let it do here, asked of the daemon at the time."""

from typing import Final

from opensafe.client import Client

#: Who may start runs of proof: those who look after the daemon or its record, or decide about calls.
STAFF: Final = frozenset({"auditor", "operator", "reviewer"})
AUDITOR: Final = "auditor"


async def staff(client: Client) -> bool:
    """Whether it is one of STAFF."""
    return not STAFF.isdisjoint((await client.status()).roles)


async def sees_all(client: Client) -> bool:
    """Whether it may see everybody's records."""
    return AUDITOR in (await client.status()).roles
