"""The bundle of all daemons here: the shipped rules, with what a site sets of its own."""

from typing import Any, Final

import msgspec

from opensafe.model.description import description_digest
from opensafe.policy.manifest import CONFIG, TOOLS
from opensafe.proof.escape.bundles import settings
from opensafe.proof.signed import SignedBundles

SERVER: Final = "tickets"
DESCRIPTION: Final = "Look a ticket up."
SCHEMA: Final[dict[str, Any]] = {
    "type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"], "additionalProperties": False,
}  # fmt: skip
#: The digest that the site looked at.
APPROVED: Final = description_digest(DESCRIPTION, SCHEMA)
#: Tools of the server: one that the site pinned, and one that only the client pins.
PINNED: Final = f"mcp__{SERVER}__lookup"
UNPINNED: Final = f"mcp__{SERVER}__note"


def members(shipped: SignedBundles) -> dict[str, bytes]:
    """Those that differ from the shipped ones."""
    tool = {"description": DESCRIPTION, "schema": SCHEMA, "facts": [], "risk": "low", "server": SERVER}
    tools = [tool | {"name": PINNED, "description_sha256": APPROVED}, tool | {"name": UNPINNED}]
    return {CONFIG: settings(shipped, _served), TOOLS: msgspec.json.encode(tools, order="sorted")}


def _served(shipped: dict[str, Any]) -> None:
    shipped["servers"][SERVER] = "any"
    shipped["roles"]["developer"][f"mcp:{SERVER}"] = True
