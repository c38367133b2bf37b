"""What was let out and has not ended: judged again when the policy or a grant changes, and cut where it is refused now.

Envoy asks once, before it dials; a tunnel lives on when what allowed it is gone, so somebody must know its socket. The
check enters a connection before Envoy has its answer, and Envoy's log takes it out. What the log shows and the table
does not have was never allowed here, and is cut. Those of the splice are ended by the splice itself.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, Protocol

import msgspec
import structlog

from opensafe.errors import Conflict, LimitExceeded, OpenSafeError
from opensafe.model.connection import Connection
from opensafe.model.traffic import OpenConnection
from opensafe.warden.feed import Call

from .accounting import Accounting
from .judge import Answer, Bar, Question, unbarred

#: Open connections of one sandbox.
MOST: Final = 512
_SWEEP_S: Final = 1.0
#: What has ended, or is to, as far as is known here, until its last log entry comes.
_SETTLING: Final = 4096
#: Requests inside of one sandbox's connections at once, each of which may need a connection of its own to the server:
#: the streams of HTTP/2, and those whose log entry is still to come.
_INSIDE: Final = 512
_WHY: Final = 500

_log = structlog.get_logger()

Socket = tuple[str, int]
Cut = Callable[[str, int], Awaitable[None]]


class Judge(Protocol):
    """Who decides (judge.EgressJudge)."""

    def judge(self, question: Question, bar: Bar = unbarred) -> Answer:
        """The verdict; anything but an allow means no. Raises nothing but what `bar` raises."""

    def refuse(self, question: Question, why: str) -> None:
        """Put on record what is refused before policy is asked. Never raises."""


class Open(msgspec.Struct, kw_only=True, eq=False):
    """One connection, or an HTTP request on one. start_ns: by Envoy's clock, 0 until known. sent, received: bytes.

    rules, why: of a cut. end: ends it and leaves the table, in the turn in which it is called; None where Envoy carries
    it. inside: requests under way, by their start, where TLS ends here; dialled: the last address of one of them.
    gone: its sandbox is.
    """

    question: Question
    answer: Answer
    source: Socket
    call: Call | None
    since_us: int
    start_ns: int = 0
    sent: int = 0
    received: int = 0
    cut: bool = False
    rules: tuple[str, ...] = ()
    why: str = ""
    end: Callable[[], None] | None = None
    inside: dict[int, Question] = {}
    dialled: str = ""
    gone: bool = False


async def _second() -> None:
    await asyncio.sleep(_SWEEP_S)


class Connections:
    """The table. `close` ends its sweep."""

    def __init__(
        self,
        accounting: Accounting,
        cut: Cut,
        report: Callable[[Connection], None],
        *,
        most: int = MOST,
        pause: Callable[[], Awaitable[None]] = _second,
    ) -> None:
        """cut: ends the socket of a source address and port. report: what has ended. pause: until the second sweep."""
        self._accounting = accounting
        self._cut = cut
        self._report = report
        self._most = most
        self._pause = pause
        self._open: dict[Socket, Open] = {}
        self._held: Counter[str] = Counter()
        self._inside: Counter[str] = Counter()
        self._settling: OrderedDict[tuple[str, int, int], Open] = OrderedDict()
        self._sweep: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def enter(
        self,
        source: Socket,
        question: Question,
        answer: Answer,
        call: Call | None,
        start_ns: int = 0,
        end: Callable[[], None] | None = None,
    ) -> Open:
        """A check allows this. end: see Open. Raises LimitExceeded: the sandbox has all it may have."""
        before = self._open.get(source)
        # Only requests follow each other on one socket. A guest may use a port for several, each to another of ours.
        if before is not None and (end or before.end or before.question.layer != question.layer):
            raise LimitExceeded(
                "another connection is open from this port", value=source[1], limit=1, remedy="Use another port."
            )
        if before is None and self._held[answer.sandbox_id] >= self._most:
            raise LimitExceeded(
                "the sandbox has too many open connections",
                value=str(self._held[answer.sandbox_id]),
                limit=str(self._most),
                remedy="Close connections before opening more.",
            )
        if before is not None:
            self._settle_later(before)
        one = self._open[source] = Open(
            question=question,
            answer=answer,
            source=source,
            call=call,
            since_us=time.time_ns() // 1000,
            start_ns=start_ns,
            end=end,
        )
        self._held[answer.sandbox_id] += 1
        return one

    def request(self, source: Socket, question: Question, answer: Answer, start_ns: int) -> None:
        """A check allows this request inside of what is open. Raises LimitExceeded, and Conflict where that is not."""
        one = self._open.get(source)
        if one is None or one.cut or (one.answer.name, one.answer.holder) != (answer.name, answer.holder):
            raise Conflict(
                "the connection was not opened for this host", value=answer.name, remedy="Open one for each host."
            )
        under_way = self._inside[answer.sandbox_id]
        if under_way >= _INSIDE:
            raise LimitExceeded(
                "too many requests are under way", value=under_way, limit=_INSIDE, remedy="Wait for answers."
            )
        self._inside[answer.sandbox_id] += start_ns not in one.inside
        one.inside[start_ns] = question

    def requested(self, source: Socket, start_ns: int) -> bool:
        """Whether such a request is under way."""
        one = self._open.get(source)
        return one is not None and start_ns in one.inside

    def answered(self, source: Socket, start_ns: int, address: str) -> None:
        """It is no longer. address: the one that was dialled for it, or ""."""
        one = self._open.get(source)
        if one is not None and one.inside.pop(start_ns, None) is not None:
            _take(self._inside, one.answer.sandbox_id, 1)
            one.dialled = address or one.dialled

    def at(self, source: Socket) -> Open | None:
        """What is open from there."""
        return self._open.get(source)

    def find(self, source: Socket, start_ns: int) -> Open | None:
        """What a log entry of this socket is about. The older one has the first right to a start nobody has claimed."""
        for key in ((*source, start_ns), (*source, 0)):
            if key in self._settling:
                return self._settling[key]
        found = self._open.get(source)
        if found is not None and found.end is None and found.start_ns in (0, start_ns):
            found.start_ns = start_ns
            return found
        return None

    def progress(self, one: Open, sent: int, received: int) -> bool:
        """Totals of it so far, in bytes. Returns whether there are more."""
        more = max(0, sent - one.sent)
        back = max(0, received - one.received)
        self._accounting.moved("" if one.gone else one.answer.sandbox_id, one.answer.name, one.call, more, back)
        one.sent += more
        one.received += back
        return more > 0 or back > 0

    def leave(self, one: Open, address: str = "") -> None:
        """It has ended. address: the one that was dialled."""
        for key in ((*one.source, one.start_ns), (*one.source, 0)):
            if self._settling.get(key) is one:
                del self._settling[key]
        if self._open.get(one.source) is one:
            self._remove(one.source)
        self._report(_record(one, address or one.dialled))

    async def recheck(self, judge: Judge) -> None:
        """Judge all again, now and once more when checks that were under way are through; cut what is refused."""
        await self._settle_all(judge)
        if self._sweep is not None:
            self._sweep.cancel()
        self._sweep = asyncio.create_task(self._again(judge), name="egress-sweep")

    async def settle(self, judge: Judge, some: Iterable[Open]) -> None:
        """Judge these again, with what was moved so far, and cut those that are refused now."""
        for one in some:
            over = self._accounting.over(one.call)
            asked = self._accounting.charged(one.question, one.call, sent=one.sent, received=one.received, counted=True)
            answer = judge.judge(asked)
            if over:
                await self._end(one, over, (over.partition(":")[0],))
            elif not answer.allowed or answer.holder != one.answer.holder:  # another's grant is no grant
                await self._end(one, answer.why or "its call's grant is closed", answer.rules)

    async def ended(self, exec_id: str) -> None:
        """Cut all that was opened under this call's grant."""
        for one in [one for one in self._open.values() if one.answer.exec_id == exec_id]:
            await self._end(one, "the call has ended")

    async def stranger(self, source: Socket) -> None:
        """Cut a socket that Envoy has open and nobody here allowed."""
        await self._cut_socket(source, "not allowed here")

    def gone(self, sandbox_id: str) -> None:
        """The sandbox is gone, and its sockets with it. Envoy still tells the last bytes of what it has told of."""
        for one in [one for one in self._open.values() if one.answer.sandbox_id == sandbox_id]:
            if one.end is not None:
                one.end()
            elif one.start_ns:
                self._settle_later(one)
            else:
                self.leave(one)
        for one in self._settling.values():
            one.gone = one.gone or one.answer.sandbox_id == sandbox_id
        self._accounting.gone(sandbox_id)

    def lost(self) -> None:
        """Envoy is gone, and all connections with it."""
        for one in (*self._settling.values(), *self._open.values()):
            if one.end is None:
                self.leave(one)

    def snapshot(self, sandbox_ids: Collection[str] | None = None) -> tuple[OpenConnection, ...]:
        """What is open now, in these sandboxes or in all."""
        return tuple(
            OpenConnection(
                sandbox_id=one.answer.sandbox_id,
                exec_id=one.answer.exec_id,
                layer=one.question.layer,
                name=one.answer.name,
                port=one.question.port,
                source=one.source[0],
                source_port=one.source[1],
                since_us=one.since_us,
                sent=one.sent,
                received=one.received,
                call_id=one.call.call_id if one.call else "",
            )
            for one in self._open.values()
            if sandbox_ids is None or one.answer.sandbox_id in sandbox_ids
        )

    async def close(self) -> None:
        """End the sweep that is due."""
        if self._sweep is not None:
            self._sweep.cancel()
            await asyncio.gather(self._sweep, return_exceptions=True)
            self._sweep = None

    async def _again(self, judge: Judge) -> None:
        await self._pause()
        await self._settle_all(judge)

    async def _settle_all(self, judge: Judge) -> None:
        await self.settle(judge, tuple(self._open.values()))
        for one in tuple(self._open.values()):
            for question in tuple(one.inside.values()):
                answer = judge.judge(self._accounting.charged(question, one.call, counted=True))
                if not answer.allowed:
                    await self._end(one, answer.why, answer.rules)

    async def _end(self, one: Open, why: str, rules: tuple[str, ...] = ()) -> None:
        if not one.cut:
            one.cut, one.why, one.rules = True, why[:_WHY], rules
        if one.end is None:
            await self._cut_socket(one.source, why)
        else:
            one.end()
            _log.info("connection cut", source=one.source[0], port=one.source[1], why=why)

    async def _cut_socket(self, source: Socket, why: str) -> None:
        try:
            await self._cut(*source)
        except (OpenSafeError, OSError) as problem:  # stays in the table: the next sweep or log entry tries again
            _log.error("a connection could not be cut", source=source[0], port=source[1], why=why, error=str(problem))
        else:
            _log.info("connection cut", source=source[0], port=source[1], why=why)

    def _settle_later(self, one: Open) -> None:
        """It carries nothing more, and its last log entry is still to come: the oldest of too many is told as it is."""
        self._remove(one.source)
        key = (*one.source, one.start_ns)
        earlier = self._settling.get(key)
        if earlier is not None:
            self.leave(earlier)
        self._settling[key] = one
        if len(self._settling) > _SETTLING:
            self.leave(next(iter(self._settling.values())))

    def _remove(self, source: Socket) -> None:
        one = self._open.pop(source)
        _take(self._held, one.answer.sandbox_id, 1)
        _take(self._inside, one.answer.sandbox_id, len(one.inside))


def _take(counted: Counter[str], sandbox_id: str, number: int) -> None:
    counted[sandbox_id] -= number
    if not counted[sandbox_id]:
        del counted[sandbox_id]


def _record(one: Open, address: str) -> Connection:
    call = one.call
    return Connection(
        time_us=time.time_ns() // 1000,
        state="cut" if one.cut else "ended",
        sandbox_id=one.answer.sandbox_id,
        exec_id=one.answer.exec_id,
        layer=one.question.layer,
        name=one.answer.name,
        port=one.question.port,
        address=address,
        method=one.question.method,
        begun_us=one.since_us,
        rules=one.rules,
        reason=one.why,
        sent=one.sent,
        received=one.received,
        decision_id=call.decision_id if call else "",
        call_id=call.call_id if call else "",
        session_id=call.session_id if call else "",
        principal=call.principal.name if call else "",
        trace_id=call.trace_id if call else "",
    )
