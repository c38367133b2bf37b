"""The front's child that verifies the log or packs evidence: minutes of work on a large log, which no call waits for.

    auditor verify STATE
    auditor export STATE SCOPE

The first line on standard output is an `Answer`; of an export, the archive follows. It is of the front's user, nicer
than the front, and ends with it: standard input is a pipe that nobody writes to, and its end is a signal (fcntl(2),
O_ASYNC).
"""

import fcntl
import os
import pathlib
import select
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Final, NoReturn

import msgspec

from opensafe import __version__
from opensafe.audit import evidence
from opensafe.audit.scope import Scope
from opensafe.audit.verify import Report, verify_state
from opensafe.errors import OpenSafeError
from opensafe.policy.location import archived_keys, archived_path
from opensafe.telemetry.excerpt import excerpt

#: Findings that are told; there may be one for each record.
FINDINGS_MAX: Final = 1000
#: What a bundle may hold, unpacked.
EVIDENCE_BYTES: Final = 1 << 30
_NICE: Final = 10


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The error that it met."""

    message: str
    value: str
    limit: str
    remedy: str


class Verified(msgspec.Struct, frozen=True, tag=True):
    """What was verified, with the first findings, and how many there are."""

    report: Report
    findings: int


class Packed(msgspec.Struct, frozen=True, tag=True):
    """A bundle of so many bytes, which follow."""

    size: int


Answer = Failed | Verified | Packed


def main(arguments: list[str]) -> int:
    """Answer; 0 also where the answer is an error."""
    _end_with_parent()
    os.nice(_NICE)
    what, state, *rest = arguments
    try:
        if what == "verify":
            _verify(pathlib.Path(state))
        else:
            _export(pathlib.Path(state), msgspec.json.decode(rest[0], type=Scope))
    except OpenSafeError as error:
        _answer(Failed(error.message, error.value, error.limit, error.remedy))
    return 0


def _verify(state: pathlib.Path) -> None:
    report = verify_state(state)
    told = msgspec.structs.replace(report, findings=report.findings[:FINDINGS_MAX])
    _answer(Verified(told, len(report.findings)))


def _export(state: pathlib.Path, scope: Scope) -> None:
    sources = evidence.Sources(
        keys=archived_keys(state),
        bundle=partial(archived_path, state),
        traces=partial(excerpt, state / "front"),
    )
    with tempfile.TemporaryDirectory(prefix="opensafe-export-") as name:
        packed = pathlib.Path(name) / "evidence"
        evidence.write(state, scope, packed, sources, __version__, most_bytes=EVIDENCE_BYTES)
        with packed.open("rb") as file:
            _answer(Packed(packed.stat().st_size))
            shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        _signals(signal.SIG_IGN)  # what was written is taken away whole


def _answer(answer: Answer) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


def _end_with_parent() -> None:
    _signals(_end)
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([0], [], [], 0)[0]:  # it had ended before
        sys.exit(1)


def _end(*_: object) -> NoReturn:
    _signals(signal.SIG_IGN)
    sys.exit(1)


def _signals(action: Callable[..., NoReturn] | signal.Handlers) -> None:
    for number in (signal.SIGIO, signal.SIGTERM):
        signal.signal(number, action)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
