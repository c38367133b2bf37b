"""From what was parsed to `Facts`: classes added, globs judged by what they may reach."""

from collections.abc import Iterable
from typing import Final

import msgspec

from opensafe.model.facts import ClassTables, Facts, HostFact, PathFact

from .findings import ShellParse, Target
from .paths import is_pattern, path_classifier
from .urls import host_classifier

MAX_GLOBS: Final = 32
_NO_ENV: Final[dict[str, str]] = {}


def from_parse(parse: ShellParse, tables: ClassTables, *, env: dict[str, str] = _NO_ENV, size: int = 0) -> Facts:
    """Facts of a shell text or an argv."""
    reasons = dict.fromkeys(parse.reasons)
    reads, writes, deletes = (
        _paths(targets, tables, reasons) for targets in (parse.reads, parse.writes, parse.deletes)
    )
    return Facts(
        commands=parse.commands,
        reads=reads,
        writes=writes,
        deletes=deletes,
        hosts=tuple([_host(fact, tables) for fact in parse.hosts]),
        env=env,
        opaque=bool(reasons),
        opaque_reasons=tuple(reasons),
        size=size,
        recalled=parse.recalled,
    )


def with_recorded(fresh: Facts, recorded: Facts, tables: ClassTables) -> Facts:
    """Facts read anew, and those that a record has beside them of what the session's calls before wrote.

    That stands in no record: so they are taken as recorded, and only their classes made anew. Nothing is taken away.
    """

    def joined(ours: tuple[PathFact, ...], theirs: tuple[PathFact, ...]) -> tuple[PathFact, ...]:
        known = {fact.path: fact for fact in ours}
        return tuple({**{fact.path: known.get(fact.path) or _again(fact, tables) for fact in theirs}, **known}.values())

    hosts = [_host(fact, tables) for fact in recorded.hosts]
    reasons = tuple(dict.fromkeys([*recorded.opaque_reasons, *fresh.opaque_reasons]))
    return msgspec.structs.replace(
        fresh,
        commands=(*recorded.commands, *(one for one in fresh.commands if one not in recorded.commands)),
        reads=joined(fresh.reads, recorded.reads),
        writes=joined(fresh.writes, recorded.writes),
        deletes=joined(fresh.deletes, recorded.deletes),
        hosts=(*hosts, *(one for one in fresh.hosts if one not in hosts)),
        opaque=fresh.opaque or recorded.opaque,
        opaque_reasons=reasons,
        recalled=True,
    )


def _again(fact: PathFact, tables: ClassTables) -> PathFact:
    if is_pattern(fact.path):
        return PathFact(path=fact.path, classes=path_classifier(tables).classify_glob(fact.path)[0])
    return one_path(fact.path, tables)


def one_path(path: str, tables: ClassTables) -> PathFact:
    """The fact of one resolved path that is no pattern."""
    return PathFact(path=path, classes=path_classifier(tables).classify(path))


def _paths(targets: Iterable[Target], tables: ClassTables, reasons: dict[str, None]) -> tuple[PathFact, ...]:
    classifier = path_classifier(tables)
    facts = []
    globs = 0
    for path, glob in targets:
        if glob:
            globs += 1
            classes, alike = classifier.classify_glob(path) if globs <= MAX_GLOBS else ({}, False)
            if not alike:
                reasons.setdefault(f"the pattern {path[:200]} may match files of several classes")
        else:
            classes = classifier.classify(path)
        facts.append(PathFact(path=path, classes=classes))
    return tuple(facts)


def _host(fact: HostFact, tables: ClassTables) -> HostFact:
    classes = host_classifier(tables).classify(fact.name)
    return msgspec.structs.replace(fact, classes=fact.classes | classes) if classes else fact
