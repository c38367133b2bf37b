"""Run one decided program to its end: deadline, output limit, cancellation, loss.

Whatever ends it, the whole process tree is gone when `execute` returns, and the outcome is what the warden and the
pipes reported. What is not known is LOST, never success.
"""

import asyncio
import enum
import os
from typing import Any, Final, Protocol

import msgspec

from opensafe.errors import OpenSafeError, SandboxError, Unavailable
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.sandbox import Launch, Terminal
from opensafe.warden import protocol

from .journal import STDERR, STDOUT, Journal
from .streams import Output, Pipes, open_pipes, write_all

#: Time for the pipes to reach their end after the program's tree is gone, in seconds.
_DRAIN_S: Final = 5.0
#: Chunks of standard input that may wait; then the client is held back.
_STDIN_CHUNKS: Final = 16


class Warden(Protocol):
    """What of the warden's client is needed here."""

    async def start(self, launch: Launch, decision: protocol.RecordRef, stdin: int, stdout: int, stderr: int) -> object:
        """Start the program; returns when its ledger entry is on disk and the sentry has it."""

    async def wait(self, exec_id: str) -> protocol.Ended:
        """The program's end."""

    async def kill(self, exec_id: str) -> object:
        """Kill its whole tree."""

    async def signal(self, exec_id: str, number: int, *, whole_tree: bool) -> object:
        """Signal it, or its whole tree."""

    async def resize(self, exec_id: str, terminal: Terminal) -> object:
        """Give its terminal another size."""


class Stdin:
    """Standard input on its way to the program. `None` ends it."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(_STDIN_CHUNKS)

    @classmethod
    def of(cls, data: bytes | None) -> "Stdin":
        """Closed at once after `data`, or at once where there is none."""
        stdin = cls()
        if data:
            stdin._queue.put_nowait(data)
        stdin._queue.put_nowait(None)
        return stdin

    async def put(self, data: bytes | None) -> None:
        """Hand over one chunk, or the end. Waits while the program lags."""
        await self._queue.put(data)

    async def feed(self, descriptor: int) -> None:
        """Write to the program until the end or until it stops reading."""
        reading = True
        while (data := await self._queue.get()) is not None:
            reading = reading and await write_all(descriptor, data)


class _Cause(enum.Enum):
    DEADLINE = OutcomeKind.DEADLINE
    OUTPUT_LIMIT = OutcomeKind.OUTPUT_LIMIT
    CANCELLED = OutcomeKind.CANCELLED


class Execution:
    """One program from start to end. `cancel` may be called at any time; it takes effect once."""

    def __init__(self, warden: Warden, launch: Launch, decision: protocol.RecordRef, journal: Journal) -> None:
        self._warden = warden
        self._launch = launch
        self._decision = decision
        self._journal = journal
        self._cause: _Cause | None = None
        self._why = ""
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._seen = {STDOUT: 0, STDERR: 0}
        self.started = asyncio.Event()  # or will never be: then `ran` is False
        self.ran = False

    @property
    def exec_id(self) -> str:
        """Id of this run."""
        return self._launch.exec_id

    @property
    def output_limit(self) -> int:
        """How many bytes it may write on both streams together."""
        return self._launch.limits.output_bytes

    def cancel(self, why: str) -> None:
        """End the program; `why` is the outcome's detail."""
        self._why = self._why or why
        self._end(_Cause.CANCELLED)

    async def signal(self, number: int, *, whole_tree: bool) -> None:
        """Signal the program or its whole tree. Raises InvalidArgument for some signals, NotFound, Unavailable."""
        await self.started.wait()
        await self._warden.signal(self.exec_id, number, whole_tree=whole_tree)

    async def resize(self, terminal: Terminal) -> None:
        """Give the terminal another size. Raises InvalidArgument where there is none, NotFound when it has ended."""
        await self.started.wait()
        await self._warden.resize(self.exec_id, terminal)

    async def run(self, stdin: Stdin) -> Outcome:
        """Start, stream, end. Never raises for what the sandbox or the warden do: that is an Outcome."""
        try:
            with open_pipes() as pipes:
                await self._warden.start(self._launch, self._decision, *pipes.guest)
                pipes.close_guest()
                self.ran = True
                self.started.set()
                return await self._attend(pipes, stdin)
        except (SandboxError, Unavailable) as error:
            return self._counted(Outcome(kind=OutcomeKind.LOST, detail=str(error)))
        except OpenSafeError as error:
            return Outcome(kind=OutcomeKind.NOT_STARTED, detail=str(error))
        except OSError as error:
            return Outcome(kind=OutcomeKind.NOT_STARTED, detail=f"no descriptors for the streams: {error.strerror}")
        finally:
            self.started.set()
            self._journal.close()

    async def _attend(self, pipes: Pipes, stdin: Stdin) -> Outcome:
        exec_id = self._launch.exec_id
        feeding = asyncio.create_task(self._feed(pipes, stdin), name=f"{exec_id}-stdin")
        pumping = [
            asyncio.create_task(self._pump(pipes.stdout, STDOUT), name=f"{exec_id}-stdout"),
            asyncio.create_task(self._pump(pipes.stderr, STDERR), name=f"{exec_id}-stderr"),
        ]
        ending = asyncio.create_task(self._warden.wait(exec_id), name=f"{exec_id}-wait")
        deadline = asyncio.get_running_loop().call_later(self._launch.limits.wall_ms / 1000, self._end, _Cause.DEADLINE)
        try:
            either: set[asyncio.Future[Any]] = {ending, self._stopped}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                await self._warden.kill(exec_id)
            ended = await ending
            self._journal.hurry()
            drained, _ = await asyncio.wait(pumping, timeout=_DRAIN_S)
            return self._counted(self._outcome(ended, complete=len(drained) == len(pumping)))
        finally:
            deadline.cancel()
            owned = [feeding, *pumping, ending]
            for task in owned:
                task.cancel()
            await asyncio.gather(*owned, return_exceptions=True)

    async def _feed(self, pipes: Pipes, stdin: Stdin) -> None:
        try:
            await stdin.feed(pipes.stdin)
        finally:
            pipes.close_one(pipes.stdin)

    async def _pump(self, descriptor: int, stream: int) -> None:
        limit = self._launch.limits.output_bytes
        output = Output(descriptor)
        while data := await output.read():
            left = limit - sum(self._seen.values())
            self._seen[stream] += len(data)
            if left < len(data):
                self._end(_Cause.OUTPUT_LIMIT)
                data = data[: max(left, 0)]
            if data:
                await self._journal.write(stream, data)

    def _end(self, cause: _Cause) -> None:
        if self._cause is None:
            self._cause = cause
            self._stopped.set_result(None)

    def _outcome(self, ended: protocol.Ended, *, complete: bool) -> Outcome:
        truncated = not complete or ended.cut or self._cause is _Cause.OUTPUT_LIMIT
        limits = self._launch.limits
        match ended.kind, self._cause:
            case "lost", _:
                return Outcome(kind=OutcomeKind.LOST, detail=ended.detail, run_ns=ended.run_ns, truncated=True)
            case "violation", _:
                return Outcome(
                    kind=OutcomeKind.VIOLATION, detail=ended.detail, run_ns=ended.run_ns, truncated=truncated
                )
            case "not_started", _:
                why = f": {os.strerror(ended.value)}" if ended.value else ""
                detail = f"{self._launch.program.argv[0]}: {ended.detail}{why}"
                return Outcome(kind=OutcomeKind.NOT_STARTED, detail=detail)
            case _, _Cause() as cause:
                detail = {
                    _Cause.DEADLINE: f"limit {limits.wall_ms} ms",
                    _Cause.OUTPUT_LIMIT: f"limit {limits.output_bytes} bytes",
                    _Cause.CANCELLED: self._why,
                }[cause]
                return Outcome(kind=cause.value, detail=detail, run_ns=ended.run_ns, truncated=truncated)
            case "exited", None:
                return Outcome(kind=OutcomeKind.EXITED, exit_code=ended.value, run_ns=ended.run_ns, truncated=truncated)
            case "signalled", None:
                return Outcome(kind=OutcomeKind.SIGNALLED, signal=ended.value, run_ns=ended.run_ns, truncated=truncated)
            case kind, _:
                return Outcome(kind=OutcomeKind.LOST, detail=f"the warden reported {kind!r}", truncated=True)

    def _counted(self, outcome: Outcome) -> Outcome:
        return msgspec.structs.replace(outcome, stdout_bytes=self._seen[STDOUT], stderr_bytes=self._seen[STDERR])
