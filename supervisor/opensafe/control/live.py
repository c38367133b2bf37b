"""A call while somebody may still attach to it: its verdicts, output and outcome.

A repeat under the same call_id attaches to the same object, so it can't run twice. Finished calls are kept for a
while, bounded in number, bytes and time, so that a client that lost its connection gets the output again.
"""

import asyncio
from collections import OrderedDict
from typing import Final

import msgspec

from opensafe.errors import Conflict, LimitExceeded, OpenSafeError
from opensafe.execution.journal import Journal, Reader
from opensafe.execution.run import Execution, Stdin
from opensafe.model.calls import Principal, ToolCall
from opensafe.model.outcome import Outcome
from opensafe.model.sandbox import Asked

from .judge import Verdict

#: Clients of one call at a time.
_CLIENTS: Final = 64
_KEPT_CALLS: Final = 1024
_KEPT_BYTES: Final = 32 << 20


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A call as a client sent it.

    stdin: clients will send standard input. asked: what the client asks of the run. keep: the call goes on when its
    last client is gone. arrived_ns: time.monotonic_ns().
    """

    principal: Principal
    session_id: str
    sandbox_id: str
    call_id: str
    tool: str
    arguments_json: bytes
    stdin: bool = False
    asked: Asked = Asked()
    keep: bool = False
    carrier: dict[str, str] = {}
    arrived_ns: int


class LiveCall:
    """One call. Its futures: `verdict`; `resumed`, of a parked call: True where another verdict comes; `outcome`."""

    def __init__(self, submission: Submission, call: ToolCall, stdin: Stdin, journal: Journal) -> None:
        loop = asyncio.get_running_loop()
        self.submission = submission
        self.call = call
        self.stdin = stdin
        self.journal = journal
        self.verdict: asyncio.Future[Verdict] = loop.create_future()
        self.resumed: asyncio.Future[bool] = loop.create_future()
        self.outcome: asyncio.Future[Outcome] = loop.create_future()
        self.execution: Execution | None = None
        self.parked = False
        self._cancelled = ""
        self._attached = 0

    @property
    def key(self) -> tuple[str, str]:
        """What identifies a call: session and call id."""
        return self.submission.session_id, self.submission.call_id

    def attach(self, offset: int = 0) -> Reader:
        """A client listens, from `offset` of the output on, until `detach`. Raises InvalidArgument, LimitExceeded."""
        if self._attached >= _CLIENTS:
            raise LimitExceeded("too many clients are attached to the call", value=self._attached, limit=_CLIENTS)
        reader = self.journal.reader(offset)
        self._attached += 1
        return reader

    def detach(self, reader: Reader) -> None:
        """A client is gone; with the last one goes the running call, unless it is to be kept."""
        reader.close()
        self._attached -= 1
        if self._attached == 0 and not self.submission.keep and not self.outcome.done():
            self.cancel("its last client is gone")

    def cancel(self, why: str = "by the client or the daemon") -> None:
        """End the call if it runs, or before it starts. A parked call stays parked."""
        if self.parked:
            return
        self._cancelled = self._cancelled or why
        if self.execution is not None:
            self.execution.cancel(why)

    async def signal(self, number: int, *, whole_tree: bool) -> None:
        """Signal its program or its whole tree. Raises Conflict where it does not run, InvalidArgument, NotFound."""
        if self.execution is None or self.outcome.done():
            raise Conflict("the call does not run", value=self.call.call_id, remedy="GetCall says what became of it.")
        await self.execution.signal(number, whole_tree=whole_tree)

    def begin(self, execution: Execution) -> None:
        """The program is about to start."""
        self.parked = False
        self.execution = execution
        if self._cancelled:
            execution.cancel(self._cancelled)

    def park(self, verdict: Verdict) -> None:
        """A reviewer has to decide."""
        self.parked = True
        self.decided(verdict)

    def reconsider(self) -> None:
        """A reviewer approved: another verdict will come, and from now on the call can be cancelled."""
        self.parked = False
        self.verdict = asyncio.get_running_loop().create_future()
        self.resumed.set_result(True)

    def decided(self, verdict: Verdict) -> None:
        """Publish the verdict."""
        self.verdict.set_result(verdict)

    async def ended(self) -> None:
        """Return when the call has its outcome, or failed."""
        await asyncio.wait((self.outcome,))

    def finish(self, outcome: Outcome) -> None:
        """Publish the end. What the call was made of is not needed again: its digest tells a repeat."""
        self.parked = False
        self.journal.close()
        self.stdin = Stdin.of(None)
        self.submission = msgspec.structs.replace(self.submission, arguments_json=b"")
        self.call = msgspec.structs.replace(self.call, arguments={}, sealed={})
        if not self.resumed.done():
            self.resumed.set_result(False)
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def fail(self, error: OpenSafeError) -> None:
        """The call can't be carried out or its record can't be kept."""
        self.journal.close()
        if not self.resumed.done():
            self.resumed.set_result(False)
        for future in (self.verdict, self.outcome):
            if not future.done():
                future.set_exception(error)
                future.exception()  # read, so that a call nobody listens to leaves no warning


class LiveCalls:
    """All live calls by key, the finished ones in order of their end, each kept for at most `kept_s` seconds."""

    def __init__(self, kept_s: float) -> None:
        self._kept_s = kept_s
        self._open: dict[tuple[str, str], LiveCall] = {}
        self._kept: OrderedDict[tuple[str, str], tuple[LiveCall, float]] = OrderedDict()
        self._kept_bytes = 0
        self._expiry: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def get(self, key: tuple[str, str]) -> LiveCall | None:
        """The call under `key`, open or kept."""
        if key in self._open:
            return self._open[key]
        kept = self._kept.get(key)
        return kept[0] if kept else None

    def tagged(self, session_id: str, tag: str) -> LiveCall | None:
        """The open call of a session with this tag; there is at most one."""
        for call in self._open.values():
            if call.submission.session_id == session_id and call.submission.asked.tag == tag != "":
                return call
        return None

    def add(self, call: LiveCall) -> None:
        """A new call, which is open until `done`."""
        self._open[call.key] = call

    def done(self, call: LiveCall) -> None:
        """The call ended: keep it for a while. Said twice, it counts once."""
        if self._open.pop(call.key, None) is None:
            return
        self._kept[call.key] = call, asyncio.get_running_loop().time() + self._kept_s
        self._kept_bytes += call.journal.size  # which is final: the call has ended
        while len(self._kept) > _KEPT_CALLS or self._kept_bytes > _KEPT_BYTES:
            self._forget_oldest()
        if self._expiry is None and self._kept:
            self._expire()

    def drop(self, call: LiveCall) -> None:
        """Forget the call: it never came to a durable verdict, so it may be sent again."""
        self._open.pop(call.key, None)

    def close(self) -> None:
        """Forget the finished calls."""
        while self._kept:
            self._forget_oldest()
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    @property
    def argument_bytes(self) -> int:
        """Size of the arguments that open calls hold."""
        return sum(len(call.submission.arguments_json) for call in self._open.values())

    def running(self) -> list[LiveCall]:
        """Calls that are open and not parked."""
        return [call for call in self._open.values() if not call.parked]

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._expiry = None
        while self._kept:
            _, until = next(iter(self._kept.values()))
            if until > loop.time():
                self._expiry = loop.call_at(until, self._expire)
                return
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        _, (oldest, _) = self._kept.popitem(last=False)
        self._kept_bytes -= oldest.journal.size
