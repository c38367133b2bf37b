"""The digest of what a tool says of itself: a server that changes its tool's words or arguments changes it (T15).

The digest is SHA-256 of the canonical JSON (model/canonical.py, RFC 8785) of

    {"description": TEXT, "schema": {…}}

with the description and the input schema exactly as the server shows them: in MCP `description` ("" where there is
none) and `inputSchema` of an entry of `tools/list`. Nothing is trimmed, sorted or resolved beyond what RFC 8785 does.
"""

from collections.abc import Mapping
from typing import Any

from .canonical import digest


def description_digest(description: str, schema: Mapping[str, Any]) -> str:
    """64 hexadecimal characters. Raises NotCanonicalError: a fraction, a lone surrogate, nested too deep."""
    return digest({"description": description, "schema": dict(schema)})
