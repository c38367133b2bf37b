"""A case as the question that the daemon would put: through the registry and the normalizer, on an ordinary session.

What a case gives replaces single fields of that session; all else is what the daemon sends for a developer's call.
"""

from typing import Any, Final

import msgspec

from opensafe.egress.names import measure
from opensafe.errors import UnknownUser
from opensafe.model.facts import ClassTables
from opensafe.model.policy_input import PolicyInput
from opensafe.model.sandbox import User
from opensafe.model.usage import Usage
from opensafe.normalize.tools import Registry
from opensafe.normalize.urls import parse_host
from opensafe.policy.subject import call_input

from .cases import Case

_ARGUMENTS_MAX: Final = 4 << 20
_USAGE: Final = tuple(Usage().as_budget())

#: A developer's session of ten minutes that has used a little of everything.
_ORDINARY: Final[dict[str, Any]] = {
    "kind": "call",
    "principal": {"name": "default", "roles": ["developer"]},
    "session": {
        "id": "ses-case",
        "agent": "coder",
        "age_s": 600,
        "counts": {"allow": 20, "block": 1},
        "window": {"calls_1m": 4, "blocks_10m": 1},
        "recent_tools": ["Read", "Bash"],
    },
    "budget": {"usage": dict.fromkeys(_USAGE, 20), "principal": dict.fromkeys(_USAGE, 100)},
    "sandbox": {"id": "sb-case", "image_digest": "sha256:" + "5a" * 32},
}


#: Of the shipped image, those that somebody would ask for.
_USERS: Final = (User(name="root", uid=0, gid=0, home="/root"), User(name="nobody", uid=65534, gid=65534))


def ask(case: Case, registry: Registry, tables: ClassTables) -> tuple[str, PolicyInput]:
    """Entry point and question. Raises RequestError where the call is refused before policy sees it.

    ValueError (msgspec.ValidationError) where `given` is no part of a question: the case is wrong, not the call.
    """
    asked: dict[str, Any] = {
        "id": case.id,
        "call": {"id": case.id, "tool": case.tool, "arguments": {}, "digest": "0" * 64},
        **_ORDINARY,
    }
    entrypoint = case.entrypoint
    if entrypoint:
        asked["call"]["arguments"] = case.arguments
    else:
        arguments = case.arguments
        if isinstance(arguments, dict) and case.sealed:
            call = registry.reopen(case.id, case.tool, arguments)
        else:
            text = arguments.encode() if isinstance(arguments, str) else msgspec.json.encode(arguments)
            call = registry.validate(case.id, case.tool, text, _ARGUMENTS_MAX)
        entrypoint = registry.entrypoint(case.tool)
        user = _user(registry.user(call))
        facts = registry.facts(call, tables, user)
        asked["call"] = msgspec.to_builtins(call_input(call, facts, registry.spec(call.tool), user=user))
    given = case.given
    if "egress" in given:
        given = given | {"egress": _peers(given["egress"], tables)}
    return entrypoint, msgspec.convert(_over(asked, given), PolicyInput)


def _user(name: str) -> User | None:
    """Whom the call asks to run as, if not the sandbox's own user. Raises UnknownUser."""
    if not name:
        return None
    found = [user for user in _USERS if name in (user.name, str(user.uid))]
    if not found:
        raise UnknownUser("the image has no such user", value=name, limit=", ".join(user.name for user in _USERS))
    return found[0]


def _over(whole: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """`whole` with the fields of `part`, objects field by field."""
    changed = dict(whole)
    for name, value in part.items():
        old = whole.get(name)
        changed[name] = _over(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return changed


def _peers(egress: dict[str, Any], tables: ClassTables) -> dict[str, Any]:
    """Hosts parsed and the name measured as the helper does, of a session that has asked for no other name there."""
    peers = {name: _peer(value, tables) if name in ("host", "address") else value for name, value in egress.items()}
    return {"label": measure(peers["host"]["name"]) | {"names": 1}, **peers} if "host" in peers else peers


def _peer(text: str, tables: ClassTables) -> dict[str, Any]:
    fact = parse_host(text, tables=tables)
    if fact is None:
        raise ValueError(f"{text!r} names no host")
    return dict(msgspec.to_builtins(fact))
