"""The bundle of all daemons here: the shipped rules, with what a site sets of its own."""

from typing import Any, Final

import msgspec

from opensafe.model.description import description_digest
from opensafe.policy.manifest import CONFIG, TOOLS
from opensafe.proof.signed import SignedBundles

#: More than a row has shots.
_BLOCKS: Final = 10_000
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
    settings = msgspec.json.decode(shipped.members[CONFIG])
    # A probe is refused more often than honest work is; what is asked here is whether any of it runs.
    settings["ceilings"]["blocks_in_ten_minutes"] = _BLOCKS
    settings["servers"][SERVER] = "any"
    settings["roles"]["developer"][f"mcp:{SERVER}"] = True
    tool = {"description": DESCRIPTION, "schema": SCHEMA, "facts": [], "risk": "low", "server": SERVER}
    tools = [tool | {"name": PINNED, "description_sha256": APPROVED}, tool | {"name": UNPINNED}]
    return {
        CONFIG: msgspec.json.encode(settings, order="sorted"),
        TOOLS: msgspec.json.encode(tools, order="sorted"),
    }
