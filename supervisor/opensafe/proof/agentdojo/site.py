"""AgentDojo's tools as a site would register them: schemas from the tools themselves, everything else from one table.

The table (`policies/agentdojo/tools.json`) was written by kind of tool, as docs/tools.md advises: what only looks is
of low risk, what acts or speaks of medium, what can't be taken back of high, and whatever others can write into is
untrusted. It names no task, no attack and no recipient.
"""

import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec
from inspect_ai.tool import ToolDef

from opensafe.errors import InvalidArgument
from opensafe.policy.manifest import CONFIG, TOOLS
from opensafe.proof.private import policies, programs
from opensafe.proof.signed import SignedBundles

from .agent import SUITES, World

#: The role of the principal that the agent calls as.
ROLE: Final = "developer"

Target = Literal["text", "page", "person", "member", "file", "event", "email", "transaction"]


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tool. risk, untrusted, facts: of the manifest.

    asks, targets: for the scripted approver alone (approver.py): beginnings of words of which a task that asks for
    such an act has one, none for what only looks; and the arguments that say whom or what it is about.
    """

    risk: Literal["low", "medium", "high"]
    untrusted: bool = False
    facts: tuple[dict[str, str], ...] = ()
    asks: tuple[str, ...] = ()
    targets: dict[str, Target] = {}


def read_table() -> dict[str, Entry]:
    """The table. Raises InvalidArgument where it can't be read or is none."""
    path = policies() / "agentdojo" / "tools.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Entry])
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidArgument(f"the table of tools can't be read: {error}", value=path) from error


def manifest(table: Mapping[str, Entry], suites: Iterable[str] = SUITES) -> list[dict[str, Any]]:
    """The tool manifest. Raises InvalidArgument for a tool that the table lacks, and for an entry without a tool."""
    found = {definition.name: definition for name in suites for definition in map(ToolDef, World(name).tools)}
    if differing := found.keys() ^ table.keys():
        raise InvalidArgument("the table has not exactly AgentDojo's tools", value=", ".join(sorted(differing)))
    return [
        {
            "name": name,
            "description": found[name].description,
            "schema": _exact(found[name].parameters.model_dump(exclude_none=True, mode="json")),
            "facts": list(entry.facts),
            "risk": entry.risk,
            "untrusted": entry.untrusted,
        }
        for name, entry in table.items()
    ]


def bundle(directory: pathlib.Path, table: Mapping[str, Entry]) -> SignedBundles:
    """The shipped bundle with these tools, and a role that has them, put in place in `directory`."""
    signed = SignedBundles(directory, pathlib.Path(programs().bundle))
    settings = msgspec.json.decode(signed.members[CONFIG])
    settings["roles"][ROLE] |= dict.fromkeys(table, True)
    content, _ = signed.next({CONFIG: msgspec.json.encode(settings), TOOLS: msgspec.json.encode(manifest(table))})
    signed.put(content)
    return signed


def plain(value: Any) -> Any:  # noqa: ANN401 - JSON of any shape
    """Arguments as the daemon takes them: fractions as text, for it has no floats."""
    match value:
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case bool() | int() | None:
            return value
        case _:
            return str(value)


def _exact(schema: Any) -> Any:  # noqa: ANN401 - JSON of any shape
    """The schema of arguments made `plain`: numbers may have come as text."""
    match schema:
        case {"type": "number"}:
            return {"type": ["integer", "string"]}
        case dict():
            return {key: _exact(item) for key, item in schema.items()}
        case list():
            return [_exact(item) for item in schema]
        case _:
            return schema
