"""The data set: calls that must and calls that must not be allowed, each with the rule that has to say so.

A case says what the catalogue of rules asks for, not what the rules do today. Rules are written against the `dev`
half; the `test` half is the figure. The set grows in rounds: nobody picks the half of a case of the current round, it
is a bit of the id's hash; what was held out in an earlier round has been looked at since and stands in `dev`. The
files' own hashes stand in a manifest, so that changing a case is a deliberate act.
"""

import enum
import hashlib
import pathlib
import re
from typing import Any, Final

import msgspec

from opensafe.errors import InvalidArgument
from opensafe.model.decision import Action

MANIFEST: Final = "MANIFEST.sha256"
_FILE: Final = re.compile(r"r([1-9][0-9]{0,3})-(?:malicious|benign|reviewed)\.jsonl")


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


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
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


_DECODER: Final = msgspec.json.Decoder(Case)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A case with its place in the set."""

    case: Case
    kind: Kind
    half: Half


def half_of(case_id: str) -> Half:
    """Even SHA-256 of the id: dev; odd: test."""
    return Half.TEST if hashlib.sha256(case_id.encode()).digest()[-1] & 1 else Half.DEV


def file_name(round_: int, kind: Kind) -> str:
    """The name of a round's file within its half."""
    return f"r{round_}-{kind}.jsonl"


def rounds_of(directory: pathlib.Path, half: Half) -> tuple[int, ...]:
    """The rounds that have a file in a half, lowest first."""
    found = (_FILE.fullmatch(path.name) for path in (directory / half).glob("*.jsonl"))
    return tuple(sorted({int(name[1]) for name in found if name}))


def read_cases(path: pathlib.Path, kind: Kind) -> tuple[Case, ...]:
    """The cases of one file.

    Raises InvalidArgument for an absent file, a line that is no case, an action that does not go with the kind.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InvalidArgument(
            f"the data set can't be read: {error.strerror}", value=path, remedy="Name its directory."
        ) from error
    cases = []
    for number, line in enumerate(lines, 1):
        place = f"{path.parent.name}/{path.name}:{number}"
        try:
            case = _DECODER.decode(line)
        except msgspec.MsgspecError as error:
            raise InvalidArgument(f"{place} is no case: {error}") from error
        if (case.expect is Action.ALLOW) is not (kind is Kind.BENIGN):
            raise InvalidArgument(f"{place}: {kind} and {case.expect} don't go together", value=case.id)
        cases.append(case)
    return tuple(cases)


def load_cases(directory: pathlib.Path, halves: tuple[Half, ...] = tuple(Half)) -> tuple[Entry, ...]:
    """The cases of `directory`/HALF/rROUND-KIND.jsonl, in order of half, round, kind and line.

    The test half is empty between two rounds. Raises InvalidArgument for a set without a development half, an absent
    file, a line that is no case, a case of the current round in the wrong half, a held-out round that is not the last,
    an id used twice.
    """
    rounds = {half: rounds_of(directory, half) for half in Half}
    current = rounds[Half.TEST]
    if not rounds[Half.DEV]:
        raise InvalidArgument("the data set can't be read: no case", value=directory, remedy="Name its directory.")
    if current and (len(current) > 1 or current[0] < max(rounds[Half.DEV])):
        raise InvalidArgument("rounds before the last are held out; they belong to dev", value=current)
    entries: dict[str, Entry] = {}
    for half in halves:
        for round_ in rounds[half]:
            for kind in Kind:
                for case in read_cases(directory / half / file_name(round_, kind), kind):
                    place = f"{half}/{file_name(round_, kind)}"
                    if round_ in current and half_of(case.id) is not half:
                        raise InvalidArgument(f"{place} has a case of the other half", value=case.id)
                    if case.id in entries:
                        raise InvalidArgument(f"{place} uses an id twice", value=case.id)
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
