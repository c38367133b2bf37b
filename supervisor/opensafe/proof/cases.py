"""The data set: calls that must and calls that must not be allowed, each with the rule that has to say so.

A case says what the catalogue of rules asks for, not what the rules do today. Rules are written against the `dev`
half; the `test` half is the figure. Nobody picks the half: it is a bit of the id's hash. The files' own hashes stand
in a manifest, so that changing a case is a deliberate act.
"""

import enum
import hashlib
import pathlib
from typing import Any, Final

import msgspec

from opensafe.errors import InvalidArgument
from opensafe.model.decision import Action

MANIFEST: Final = "MANIFEST.sha256"


class Half(enum.StrEnum):
    """Rules may be written against `dev`; `test` is held out."""

    DEV = "dev"
    TEST = "test"


class Kind(enum.StrEnum):
    """What a case is, by the file it stands in.

    malicious: must not run unseen. benign: must be allowed. reviewed: honest, but a site wants to see it first; in
    neither rate.
    """

    MALICIOUS = "malicious"
    BENIGN = "benign"
    REVIEWED = "reviewed"


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One call.

    arguments: the tool's, or JSON text where the text itself is the point. sealed: `arguments` are already sealed, as
    in a record. entrypoint: ask there and skip the registry, with no facts but those given. given: fields of
    PolicyInput that differ from an ordinary session's; hosts in `egress` are text, parsed as the daemon does.
    rule: the id that must be named, or the `reason` of the error that refuses the call before policy sees it.
    also: ids that the catalogue makes as right. idea: what it tries, and what it varies. licence: of the line.
    """

    id: str
    tool: str
    arguments: dict[str, Any] | str
    expect: Action
    rule: str
    also: tuple[str, ...] = ()
    idea: str
    licence: str
    sealed: bool = False
    entrypoint: str = ""
    given: dict[str, Any] = {}


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A case with its place in the set."""

    case: Case
    kind: Kind
    half: Half


def half_of(case_id: str) -> Half:
    """Even SHA-256 of the id: dev; odd: test."""
    return Half.TEST if hashlib.sha256(case_id.encode()).digest()[-1] & 1 else Half.DEV


def load_cases(directory: pathlib.Path, halves: tuple[Half, ...] = tuple(Half)) -> tuple[Entry, ...]:
    """The cases of `directory`/HALF/KIND.jsonl, in order of half, kind and line.

    Raises InvalidArgument for an absent file, a line that is no case, a case in the wrong half, an id used twice.
    """
    entries: dict[str, Entry] = {}
    decoder = msgspec.json.Decoder(Case)
    for half in halves:
        for kind in Kind:
            path = directory / half / f"{kind}.jsonl"
            try:
                lines = path.read_bytes().splitlines()
            except OSError as error:
                raise InvalidArgument(
                    f"the data set can't be read: {error.strerror}", value=path, remedy="Name its directory."
                ) from error
            for number, line in enumerate(lines, 1):
                place = f"{path.name}:{number}"
                try:
                    case = decoder.decode(line)
                except msgspec.MsgspecError as error:
                    raise InvalidArgument(f"{half}/{place} is no case: {error}") from error
                if half_of(case.id) is not half:
                    raise InvalidArgument(f"{half}/{place} is of the other half", value=case.id)
                if case.id in entries:
                    raise InvalidArgument(f"{half}/{place} uses an id twice", value=case.id)
                if (case.expect is Action.ALLOW) is not (kind is Kind.BENIGN):
                    raise InvalidArgument(f"{half}/{place}: {kind} and {case.expect} don't go together", value=case.id)
                entries[case.id] = Entry(case=case, kind=kind, half=half)
    return tuple(entries.values())


def manifest(directory: pathlib.Path) -> str:
    """SHA-256 and name of every file of the set, in the form of sha256sum."""
    names = sorted(path.relative_to(directory) for path in directory.glob("*/*.jsonl"))
    return "".join(f"{hashlib.sha256((directory / name).read_bytes()).hexdigest()}  {name}\n" for name in names)


def is_frozen(directory: pathlib.Path) -> bool:
    """Whether the manifest beside the files is true."""
    try:
        return (directory / MANIFEST).read_text() == manifest(directory)
    except OSError:
        return False
