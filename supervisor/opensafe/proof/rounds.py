"""`python -m opensafe.proof.rounds NEW [--cases DIR]`: open a round of the data set with calls that are newly written.

NEW holds malicious.jsonl, benign.jsonl and reviewed.jsonl of authors who have not read the rules. What was held out
so far goes to the development half; the new calls are split by the hash of their ids. Nothing is written unless all
is well, and no line is printed: who writes rules may run it.
"""

import argparse
import pathlib
import sys
from collections.abc import Iterable

import msgspec

from opensafe.errors import InvalidArgument, RequestError
from opensafe.model.facts import ClassTables
from opensafe.normalize.tools import DEFAULT_REGISTRY

from .ask import ask
from .cases import MANIFEST, Case, Half, Kind, file_name, half_of, load_cases, manifest, read_cases, rounds_of


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A round that was opened.

    kept: calls by half and kind. seen, doubled: calls that were dropped, because they stand in an earlier round or in
    this one already.
    """

    number: int
    kept: dict[Half, dict[Kind, int]]
    seen: int
    doubled: int


def open_round(directory: pathlib.Path, new: pathlib.Path) -> Opened:
    """Add the round whose calls lie in `new` to the set in `directory`, and write its manifest.

    Raises InvalidArgument for what `load_cases` refuses, an id used twice, a `given` that is no part of a question, a
    refusal other than the one the case names, and a call that is of two kinds at once.
    """
    entries = load_cases(directory)
    ids = {entry.case.id for entry in entries}
    old = {_call(entry.case) for entry in entries}
    fresh: dict[bytes, Kind] = {}
    kept: dict[Half, dict[Kind, list[Case]]] = {half: {kind: [] for kind in Kind} for half in Half}
    seen = doubled = 0
    for kind in Kind:
        for case in read_cases(new / f"{kind}.jsonl", kind):
            if case.id in ids:
                raise InvalidArgument(f"{kind}.jsonl uses an id twice", value=case.id)
            ids.add(case.id)
            _check(case)
            call = _call(case)
            if call in old:
                seen += 1
            elif call not in fresh:
                fresh[call] = kind
                kept[half_of(case.id)][kind].append(case)
            elif fresh[call] is kind:
                doubled += 1
            else:
                raise InvalidArgument(f"a call is {fresh[call]} and {kind} at once", value=case.id)
    number = max(rounds_of(directory, Half.DEV)) + 1
    _retire(directory)
    for half, kinds in kept.items():
        (directory / half).mkdir(exist_ok=True)
        for kind, cases in kinds.items():
            (directory / half / file_name(number, kind)).write_bytes(_lines(cases))
    (directory / MANIFEST).write_text(manifest(directory))
    counts = {half: {kind: len(cases) for kind, cases in kinds.items()} for half, kinds in kept.items()}
    return Opened(number=number, kept=counts, seen=seen, doubled=doubled)


def _retire(directory: pathlib.Path) -> None:
    """Move what is held out to the development half of its round."""
    for path in sorted((directory / Half.TEST).glob("*.jsonl")):
        with (directory / Half.DEV / path.name).open("ab") as file:
            file.write(path.read_bytes())
        path.unlink()


def _call(case: Case) -> bytes:
    return msgspec.json.encode([case.tool, case.arguments, case.entrypoint, case.given], order="deterministic")


def _check(case: Case) -> None:
    try:
        ask(case, DEFAULT_REGISTRY, ClassTables())
    except RequestError as error:
        if error.reason not in {case.rule, *case.also}:
            raise InvalidArgument(f"the call is refused for another reason: {error.reason}", value=case.id) from error
    except ValueError as error:
        raise InvalidArgument(f"the call is no question: {error}", value=case.id) from error


def _lines(cases: Iterable[Case]) -> bytes:
    return b"".join(msgspec.json.encode(case) + b"\n" for case in cases)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def main() -> None:
    """Open a round, or say on stderr why not and end with 1."""
    parser = argparse.ArgumentParser(prog="python -m opensafe.proof.rounds", description="Open a round of calls.")
    parser.add_argument("new", type=pathlib.Path, help="directory of malicious, benign and reviewed.jsonl")
    parser.add_argument("--cases", type=pathlib.Path, default=pathlib.Path("policies/cases"), help="the data set")
    given = parser.parse_args()
    try:
        opened = open_round(given.cases, given.new)
    except InvalidArgument as error:
        sys.exit(str(error))
    for half, kinds in opened.kept.items():
        _say(f"round {opened.number}, {half}: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()))
    _say(f"dropped: {opened.seen} of earlier rounds, {opened.doubled} that stood in this one already")


if __name__ == "__main__":
    main()
