"""What a tool is to the registry, and the pieces that several tools' schemas and programs are made of."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from opensafe.model.calls import Program
from opensafe.model.decision import Grant
from opensafe.model.facts import ClassTables, Facts
from opensafe.model.written import Left, Written

from .environment import DEFAULT_CWD, GUEST_ENV

Sealed = Mapping[str, Any]

#: A user by name or number, as warden/sandbox/users.py finds it in the image.
USER: Final = {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}$"}
TIMEOUT: Final = {"type": "integer", "minimum": 50, "maximum": 3_600_000}


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One tool. `facts` and `program` are pure functions of the sealed arguments; `bulk` names sealed fields.

    reads: as `facts`, for a tool that runs files, of the files that calls before wrote as well; and what it leaves in
    them. leaves: the same of a tool that runs none, from the arguments with their content.
    identity: the argument that names the user to run as, if there is one.
    risk, server, pinned, untrusted, elsewhere: of a site's tool, as its manifest says; one that runs elsewhere has no
    program.
    """

    name: str
    description: str
    schema: dict[str, Any]
    entrypoint: str
    facts: Callable[[Sealed, ClassTables], Facts]
    program: Callable[[Sealed, Grant], Program]
    reads: Callable[[Sealed, ClassTables, Written], tuple[Facts, Left]] | None = None
    leaves: Callable[[Sealed, Written], Left] | None = None
    bulk: tuple[str, ...] = ()
    identity: str = ""
    risk: str = ""
    server: str = ""
    pinned: str = ""
    untrusted: bool = False
    elsewhere: bool = False


def object_schema(required: list[str], properties: dict[str, Any], **more: object) -> dict[str, Any]:
    """The schema of an object with these properties and no others."""
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False, **more}


def program_of(argv: tuple[str, ...], sealed: Sealed) -> Program:
    """`argv` in the environment and directory that the call asks for."""
    return Program(argv=argv, env={**GUEST_ENV, **sealed.get("env", {})}, cwd=sealed.get("cwd", DEFAULT_CWD))
