"""One call of the sandbox API under way: its output as an iterator, then its result.

It is repeated under its call_id where the daemon was not there, as long as nothing of it was handed out and nothing was
sent to it; where a reviewer has to be waited for, it waits.
"""

import codecs
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from types import TracebackType
from typing import Final, Self, TypeGuard

from opensafe.errors import Conflict, Unavailable
from opensafe.model.decision import Action

from ._calls import Call
from ._collect import Collector
from ._events import Decided, Event, Gap, Started, Stderr, Stdout
from ._result import CommandResult, Output, command_result
from ._reviewing import reviewed
from ._run_options import Plan
from ._settle import pending, settle
from ._types import Verdict

_STREAMS: Final = {Stdout: "stdout", Stderr: "stderr"}


class AsyncRun:
    """A command under way. Iterate over its output (Output) to the end, where what went wrong is raised; then there is
    its `result`. As a context manager it has started when the block begins, and is left (which kills it, unless it is
    kept) when it ends.

    Raises Denied, ReviewPending, CommandFailed, SandboxError, Unavailable and RequestError.
    """

    def __init__(self, begin: Callable[[], Call], plan: Plan, *, repeats: bool) -> None:
        """begin: the call, each time under the same id. repeats: it may be made again."""
        self._begin = begin
        self._plan = plan
        self._repeats = repeats and plan.stdin is None
        self._ahead: list[Output] = []
        self._result: CommandResult | None = None
        self._call: Call | None = None
        self._started = False
        self.verdict: Verdict | None = None
        self._reset()
        self._outputs = self._read()

    @property
    def call_id(self) -> str:
        """The call's id, by which it is resumed."""
        return self._plan.call_id

    @property
    def result(self) -> CommandResult:
        """Its result, once the output is read to the end. Raises Conflict before."""
        if self._result is None:
            raise Conflict("the command has not ended", value=self.call_id, remedy="Read its output to the end first.")
        return self._result

    async def start(self) -> Self:
        """Wait until the program runs. Raises what keeps it from that; what it writes at once is not lost."""
        while not self._started and self._result is None:
            piece = await anext(self._outputs, None)
            if piece is None:
                break
            if piece.data or piece.text or piece.missed:
                self._ahead.append(piece)
        return self

    async def wait(self) -> CommandResult:
        """Its result; the output that was not iterated over is in it as well."""
        async for _ in self._outputs:
            pass
        self._ahead.clear()
        return self.result

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Output:
        self._repeats = False
        if self._ahead:
            return self._ahead.pop(0)
        while True:
            piece = await anext(self._outputs)
            if piece.data or piece.text or piece.missed:
                return piece

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Leave it."""
        await self._outputs.aclose()

    async def send(self, data: str | bytes) -> None:
        """Standard input of an interactive run. Text goes as UTF-8."""
        await self._open().send(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data)

    async def close_stdin(self) -> None:
        """End standard input."""
        await self._open().close_stdin()

    async def signal(self, number: int, *, whole_tree: bool = False) -> None:
        """Signal the program, or every process of the call."""
        await self._open().signal(number, whole_tree=whole_tree)

    async def resize(self, columns: int, rows: int) -> None:
        """Give its terminal another size."""
        await self._open().resize(columns, rows)

    async def cancel(self) -> None:
        """Kill its whole process tree; the output then ends with CommandCancelled."""
        await self._open().cancel()

    def _open(self) -> Call:
        if self._call is None:
            raise Conflict("the command is not under way", value=self.call_id, remedy="Start it first.")
        self._repeats = False
        return self._call

    def _reset(self) -> None:
        self._collector = Collector(self._plan.keep)
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {kind: decoder("replace") for kind in _STREAMS}
        self._missed = 0

    async def _read(self) -> AsyncGenerator[Output, None]:
        """Its output; a piece without anything in it where it starts."""
        async with aclosing(self._events()) as events:
            async for event in events:
                ended = self._collector.add(event)
                match event:
                    case Decided(verdict):
                        self.verdict = verdict
                    case Started():
                        self._started = True
                        yield Output(stream="stdout", data=b"", text="")
                    case Gap(start, end):
                        self._missed += end - start
                    case Stdout() | Stderr():
                        yield self._output(event)
                if ended is not None:
                    for piece in self._rest():
                        yield piece
                    self._result = command_result(self.call_id, ended)
        settle(self.result, check=self._plan.check)

    def _output(self, event: Stdout | Stderr) -> Output:
        missed, self._missed = self._missed, 0
        text = self._decoders[type(event)].decode(event.data)
        return Output(stream=_STREAMS[type(event)], data=event.data, text=text, missed=missed)

    def _rest(self) -> list[Output]:
        """What a stream that ended within a character leaves."""
        rest = [(kind, decoder.decode(b"", final=True)) for kind, decoder in self._decoders.items()]
        return [Output(stream=_STREAMS[kind], data=b"", text=text) for kind, text in rest if text]

    async def _events(self) -> AsyncGenerator[Event, None]:
        failures = 0
        while True:
            try:
                async with aclosing(self._once()) as events:
                    async for event in events:
                        yield event
                return
            except Unavailable as error:
                failures += 1
                error.call_id = self.call_id
                if not self._repeats or failures >= self._plan.retry.attempts:
                    raise
            await self._plan.retry.pause(failures)
            self._ahead.clear()
            self._reset()

    async def _once(self) -> AsyncGenerator[Event, None]:
        plan = self._plan
        try:
            async with aclosing(self._begin()) as call:
                self._call = call
                async for event in call:
                    yield event
                    if plan.wait_review is not None and _parks(event):
                        parked = pending(event.verdict, self.call_id)
                        yield await reviewed(_past_review(call), parked, plan.on_review, plan.wait_review)
        finally:
            self._call = None


def _parks(event: Event) -> TypeGuard[Decided]:
    return isinstance(event, Decided) and event.verdict.action is Action.REVIEW


async def _past_review(call: Call) -> Event:
    """The event after the review: another verdict, or the end."""
    async for event in call:
        if not _parks(event):
            return event
    raise Unavailable("the daemon ended the stream without an outcome")
