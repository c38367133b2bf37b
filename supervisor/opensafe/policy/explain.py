"""Explain a decision: where its rules stand, and what the site would have allowed instead.

The nearest allowed is read off the site's settings, not asked of the rules: a hint for whoever wrote the call.
"""

import difflib
import pathlib
from typing import Any, Final

import msgspec

from opensafe.model.decision import Action, Decision
from opensafe.model.explanation import Explanation, Nearest
from opensafe.model.facts import PathFact
from opensafe.model.policy_input import PolicyInput
from opensafe.normalize.paths import contains

from . import archive
from .catalogue import Catalogue, read_catalogue
from .manifest import ALLOWED, CONFIG, PACKAGE, RULES, Bundle

_SHOWN: Final = 3
#: How like two names must be (0 to 1) for one to stand in for the other.
_LIKENESS: Final = 0.6


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """What an explanation needs of the bundle that decided."""

    revision: str
    catalogue: Catalogue
    config: dict[str, Any]


def reference_of(bundle: Bundle) -> Reference:
    """Of a bundle that is loaded."""
    config = msgspec.json.decode(bundle.data)[PACKAGE]["config"]
    return Reference(revision=bundle.revision, catalogue=bundle.rules, config=config)


def reference_in(path: pathlib.Path, revision: str) -> Reference:
    """Of an archived bundle, which was verified when it was taken. Raises BundleRefused."""
    members = archive.unpack(archive.read_file(path), ALLOWED)
    config = msgspec.json.decode(members[CONFIG])
    return Reference(revision=revision, catalogue=read_catalogue(members[RULES]), config=config)


def explain(reference: Reference, entrypoint: str, question: PolicyInput, decision: Decision) -> Explanation:
    """Put together what is known of `decision`."""
    ids = {hit.id for hit in (*decision.rules, *decision.shadow)}
    return Explanation(
        decision_id=question.id,
        revision=reference.revision,
        entrypoint=entrypoint,
        question=question,
        decision=decision,
        notes=tuple(note for note in reference.catalogue if note.id in ids),
        nearest=() if decision.action is Action.ALLOW else nearest(reference.config, entrypoint, question),
    )


def nearest(config: dict[str, Any], entrypoint: str, question: PolicyInput) -> tuple[Nearest, ...]:
    """For each path, host and program of the call, and its tool, that the site's settings do not allow."""
    call = question.call
    roots = config.get("grants", {}).get(entrypoint.rpartition("/")[2], {}).get("paths", {})
    found = [
        *(_path(path, roots.get("read", [])) for path in call.reads),
        *(_path(path, roots.get("write", [])) for path in (*call.writes, *call.deletes)),
        *(
            _name("host", host.name, config.get("hosts", {}).get("allowed", []))
            for host in call.hosts
            if not host.classes.get("allowed")
        ),
        *(_program(command.program, config.get("programs", {})) for command in call.commands),
        _tool(question, config.get("roles", {})),
    ]
    return tuple({one: None for one in found if one is not None and one.allowed})


def _path(fact: PathFact, roots: list[str]) -> Nearest | None:
    if any(contains(root, fact.path) for root in roots):
        return None
    name = fact.path.rstrip("/").rpartition("/")[2]
    return Nearest(kind="path", value=fact.path, allowed=tuple(f"{root}/{name}".rstrip("/") for root in roots[:_SHOWN]))


def _program(program: str, programs: dict[str, Any]) -> Nearest | None:
    ordinary = programs.get("ordinary", {})
    return None if not program or program in ordinary else _name("program", program, ordinary)


def _name(kind: str, value: str, allowed: Any) -> Nearest:  # noqa: ANN401 - a list or the keys of an object, as in the settings
    like = difflib.get_close_matches(value, [str(name) for name in allowed], _SHOWN, _LIKENESS)
    if kind == "host" and not like:
        like = [str(name) for name in allowed][:_SHOWN]
    return Nearest(kind=kind, value=value, allowed=tuple(like))


def _tool(question: PolicyInput, roles: dict[str, Any]) -> Nearest | None:
    tools = {tool for role in question.principal.roles for tool in roles.get(role, {})}
    tool = question.call.tool or "Sandbox"
    return None if tool in tools else Nearest(kind="tool", value=tool, allowed=tuple(sorted(tools)))
