"""`opensafe policy digest`: what to pin of the tools that a server offers."""

import pathlib
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from opensafe.errors import InvalidArgument

from . import options


def digest(
    file: Annotated[
        pathlib.Path, typer.Argument(metavar="FILE", help="A tool, a list of them, or an answer to MCP's tools/list.")
    ],
    json: options.Json = False,
) -> int:
    """Print the digest of each tool's description and schema: `description_sha256` of a tool manifest."""
    from . import present
    from .report import encode, report

    digests = dict(_digests(file))
    if json:
        present.raw(encode(report("policy-digest", {"tools": len(digests)}, digests)))
        return 0
    for name, found in digests.items():
        present.out(f"{found}  {name}")
    return 0


def _digests(file: pathlib.Path) -> Iterator[tuple[str, str]]:
    from opensafe.model.canonical import NotCanonicalError
    from opensafe.model.description import description_digest

    for tool in _tools(file):
        name, description = tool.get("name"), tool.get("description", "")
        schema = tool.get("inputSchema", tool.get("schema"))
        if not (isinstance(name, str) and isinstance(description, str) and isinstance(schema, dict)):
            raise InvalidArgument("a tool has a name, a description and an inputSchema", value=tool)
        try:
            yield name, description_digest(description, schema)
        except NotCanonicalError as error:
            raise InvalidArgument(f"{name} has no digest: {error}") from error


def _tools(file: pathlib.Path) -> list[dict[str, Any]]:
    import msgspec

    try:
        found = msgspec.json.decode(file.read_bytes(), type=dict[str, Any] | list[dict[str, Any]])
    except OSError as error:
        raise InvalidArgument(f"the file can't be read: {error.strerror}", value=file) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidArgument(f"the file is no tool: {error}", value=file) from error
    if isinstance(found, list):
        return found
    found = found.get("result", found)
    tools = found.get("tools", [found])
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise InvalidArgument("the file holds no list of tools", value=file)
    return tools
