"""The real verifier over many copies of a log, as `python -m opensafe.proof.escape.control.verifying`.

Standard input: cases in JSON. Standard output: what `audit verify` finds in each, a line of JSON each. A process of its
own, so that the code it runs can be a copy with a check taken out.
"""

import pathlib
import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from opensafe.audit.checkpoints import read_key
from opensafe.audit.verify import verify_state
from opensafe.errors import AuditError
from opensafe.proof.escape import host

_MODULE: Final = "opensafe.proof.escape.control.verifying"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of a state directory, and what was kept elsewhere: a file of the public key, and checkpoints."""

    name: str
    state: str
    key: str = ""
    notes: tuple[bytes, ...] = ()


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """Of one case: whether the verifier says that all is well, and the kinds of what it found."""

    name: str
    ok: bool
    findings: tuple[str, ...]


async def verified(cases: Sequence[Case], source: pathlib.Path | None) -> tuple[Verified, ...]:
    """All of them, by the package in `source` or this one. Raises OSError where the verifier itself fails."""
    ended = await host.python("-m", _MODULE, stdin=msgspec.json.encode(list(cases)), source=source)
    return tuple(msgspec.json.decode(line, type=Verified) for line in ended.require("the verifier").splitlines())


def _verify(case: Case) -> Verified:
    try:
        key = read_key(pathlib.Path(case.key)) if case.key else None
        report = verify_state(pathlib.Path(case.state), key=key, notes=case.notes)
    except AuditError as error:
        return Verified(name=case.name, ok=False, findings=(error.reason,))
    return Verified(name=case.name, ok=report.ok, findings=tuple(sorted({one.kind for one in report.findings})))


def main() -> None:
    """Verify each."""
    for case in msgspec.json.decode(sys.stdin.buffer.read(), type=tuple[Case, ...]):
        sys.stdout.buffer.write(msgspec.json.encode(_verify(case)) + b"\n")


if __name__ == "__main__":
    main()
