"""Runs of proof that people start: the command as a child, one at a time, ended with the console.

A run's report goes to the directory of reports: `redteam` keeps it there itself; of the others what they print is kept
once it is a report. What a child says on stderr is shown, its last lines.
"""

import asyncio
import contextlib
import os
import pathlib
import signal
import subprocess
import time
from collections import deque
from datetime import UTC, datetime
from typing import Final

import msgspec

from opensafe.errors import Conflict, HostUnsuitable, InvalidArgument

from .owned import How, command
from .reports import REPORT_MAX, stamp

LINES_MAX: Final = 200
_LINE_MAX: Final = 500
_PIECE: Final = 64 * 1024
#: How long a child may take to clean up after itself: sandboxes, a daemon.
PATIENCE_S: Final = 15.0
#: And how long what it said may take to arrive once it ended.
_REST_S: Final = 5.0
#: Exit statuses with which a command has made its report: all holds, not all holds.
_REPORTED: Final = (0, 1)


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What can be run. keeps: what its report's name begins with; "" where the command keeps it itself."""

    id: str
    words: tuple[str, ...]
    root: bool
    keeps: str = ""

    def command(self, directory: pathlib.Path, when: str) -> tuple[str, ...]:
        """Its arguments."""
        if not self.keeps:
            return (*self.words, "--reports", str(directory))
        more = ("--resume", str(directory / f"campaign-{when}")) if self.id == "campaign" else ()
        return (*self.words, *more, "--json")


KINDS: Final = {
    kind.id: kind
    for kind in (
        Kind(id="policy", words=("redteam", "run", "--set", "policy"), root=False),
        Kind(id="scenarios", words=("redteam", "run", "--set", "scenarios"), root=True),
        Kind(id="all", words=("redteam", "run"), root=True),
        Kind(id="escape", words=("escape", "run"), root=True, keeps="escape"),
        Kind(id="campaign", words=("fuzz", "campaign"), root=True, keeps="fuzz-campaign"),
        Kind(id="mutants", words=("fuzz", "mutants"), root=False, keeps="fuzz-mutants"),
    )
}


class Run(msgspec.Struct, kw_only=True):
    """One that goes on, or the last. status: how it ended, None while it goes on; stopped_by: who had it stopped."""

    kind: Kind
    by: str
    began_us: int
    lines: deque[str] = msgspec.field(default_factory=lambda: deque(maxlen=LINES_MAX))
    ended_us: int = 0
    status: int | None = None
    stopped_by: str = ""


class Runner:
    """At most one child. `current` is the run that goes on, or the last."""

    def __init__(self, directory: pathlib.Path | None) -> None:
        self.directory = directory
        self.current: Run | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    @property
    def going(self) -> bool:
        """Whether one goes on."""
        return self.current is not None and self.current.status is None

    def startable(self, kind: Kind) -> bool:
        """Whether this process has what the kind needs of it."""
        return not kind.root or os.geteuid() == 0

    async def start(self, name: str, by: str) -> None:
        """Begin one. Raises InvalidArgument, Conflict, HostUnsuitable."""
        kind = KINDS.get(name)
        if kind is None:
            raise InvalidArgument("there is no such run", value=name, limit=", ".join(KINDS))
        if self.going:
            raise Conflict("a run goes on already", remedy="Wait for its end, or stop it.")
        if self.directory is None or not self.startable(kind):
            raise HostUnsuitable("this console can't run it", value=name, remedy="Run the command that is shown.")
        self._process = None
        run = self.current = Run(kind=kind, by=by, began_us=time.time_ns() // 1000)
        when = stamp(datetime.now(UTC))
        part = self.directory / f".{kind.keeps or kind.id}-{when}.part"
        try:
            output = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *command(How.TRUSTED, kind.command(self.directory, when)),
                    stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, start_new_session=True,
                    env={**os.environ, "OPENSAFE_PROGRESS": "lines"},
                )  # fmt: skip
            finally:
                os.close(output)
        except OSError as error:
            run.status, run.ended_us = -1, time.time_ns() // 1000
            raise HostUnsuitable(f"it can't be begun: {error.strerror}", value=self.directory) from error
        kept = self.directory / f"{kind.keeps}-{when}.json" if kind.keeps else None
        self._watching = asyncio.create_task(self._watch(self._process, run, part, kept))

    def stop(self, by: str) -> None:
        """Have it end and clean up; what takes too long is killed. Nothing where none goes on."""
        process, run, watching = self._process, self.current, self._watching
        if process is None or run is None or watching is None or run.status is not None or run.stopped_by:
            return
        run.stopped_by = by
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        self._ending = asyncio.create_task(_ended(process, watching))

    async def close(self) -> None:
        """Stop what goes on, and wait for its end."""
        self.stop("console")
        if self._ending is not None:
            await self._ending

    async def _watch(
        self, process: asyncio.subprocess.Process, run: Run, part: pathlib.Path, kept: pathlib.Path | None
    ) -> None:
        listening = asyncio.create_task(_listen(process, run.lines))
        status = await process.wait()
        with contextlib.suppress(TimeoutError):  # what it left behind may hold the pipe
            await asyncio.wait_for(listening, _REST_S)
        try:
            _keep(part, kept if status in _REPORTED and not run.stopped_by else None)
        except OSError as error:
            run.lines.append(f"the report can't be kept: {error.strerror}")
        run.status, run.ended_us = status, time.time_ns() // 1000


async def _ended(process: asyncio.subprocess.Process, watching: asyncio.Task[None]) -> None:
    """Until it has ended; killed where it takes too long."""
    try:
        await asyncio.wait_for(asyncio.shield(watching), PATIENCE_S)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await watching


async def _listen(process: asyncio.subprocess.Process, lines: deque[str]) -> None:
    """What it says on stderr, line by line; of a long one the beginning."""
    assert process.stderr is not None  # noqa: S101 - it was asked for; for the type checker
    rest = b""
    while piece := await process.stderr.read(_PIECE):
        *whole, rest = (rest + piece).split(b"\n")
        lines.extend(line[:_LINE_MAX].decode(errors="replace") for line in whole)
        rest = rest[:_LINE_MAX]
    if rest:
        lines.append(rest.decode(errors="replace"))


def _keep(part: pathlib.Path, kept: pathlib.Path | None) -> None:
    """Give what was printed its name, where it is a report; else take it away."""
    if kept is not None and 0 < part.stat().st_size <= REPORT_MAX:
        part.rename(kept)
    else:
        part.unlink(missing_ok=True)
