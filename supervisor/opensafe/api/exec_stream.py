"""One client's stream of one call: what it is sent, and what it sends.

Messages go out in order, each with its number; a quiet stream sends a keepalive. What a client sends out of place ends
its stream with a typed error, so that nobody believes in a resize or a signal that never took place.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from opensafe._proto.v1 import exec_pb2
from opensafe.control.live import LiveCall
from opensafe.errors import Conflict, InvalidArgument, NotFound, OpenSafeError
from opensafe.execution.journal import STDOUT, Gap, Reader
from opensafe.execution.run import Execution
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind

from . import convert, exec_messages


class Answers:
    """The messages to one client. `fail` ends them with an error."""

    def __init__(self, live: LiveCall, reader: Reader, keepalive_s: float) -> None:
        self._live = live
        self._reader = reader
        self._keepalive_s = keepalive_s
        self._sequence = 0
        self._broken: OpenSafeError | None = None
        self._waiting: asyncio.Future[None] | None = None

    def fail(self, error: OpenSafeError) -> None:
        """Raise `error` to the client in the place of the next message."""
        self._broken = self._broken or error
        self._wake()

    async def messages(self, *, wait_for_review: bool, background: bool) -> AsyncIterator[exec_pb2.ExecResponse]:
        """All of them; background: no further than the start. Raises what `fail` was given, and the call's failure."""
        live = self._live
        verdict = live.verdict
        async for message in self._until(verdict):
            yield message
        decided = verdict.result()
        yield self._message(decided=convert.decision(decided))
        if decided.decision.action is Action.REVIEW and live.parked:
            if not wait_for_review:
                pending = Outcome(kind=OutcomeKind.REVIEW_PENDING, detail=decided.review_id)
                yield self._message(outcome=convert.outcome(pending))
                return
            async for message in self._until(live.resumed):
                yield message
            if live.resumed.result():
                verdict = live.verdict
                async for message in self._until(verdict):
                    yield message
                yield self._message(decided=convert.decision(verdict.result()))
        if live.execution is not None:
            async for message in self._start(live.execution):
                yield message
            if background and live.execution.ran:
                return
        async for message in self._end():
            yield message

    async def _start(self, execution: Execution) -> AsyncIterator[exec_pb2.ExecResponse]:
        if not execution.started.is_set():
            starting = asyncio.ensure_future(execution.started.wait())
            try:
                async for message in self._until(starting):
                    yield message
            finally:
                starting.cancel()
        if execution.ran:
            yield self._message(
                started=exec_pb2.StartedCall(exec_id=execution.exec_id, call_id=self._live.call.call_id)
            )

    async def _end(self) -> AsyncIterator[exec_pb2.ExecResponse]:
        """Output, then the outcome."""
        live, reader, missed = self._live, self._reader, False
        while not reader.ended:
            match reader.take():
                case None:
                    async for message in self._until(reader.more()):
                        yield message
                case Gap(start, end):
                    missed = True
                    yield self._message(gap=exec_pb2.Gap(from_offset=start, to_offset=end))
                case chunk if chunk.stream == STDOUT:
                    yield self._message(stdout=chunk.data, offset=chunk.offset)
                case chunk:
                    yield self._message(stderr=chunk.data, offset=chunk.offset)
            if self._broken is not None:
                raise self._broken
        reader.take()  # the last piece is delivered
        async for message in self._until(live.outcome):
            yield message
        outcome = live.outcome.result()
        if outcome.kind is OutcomeKind.OUTPUT_LIMIT and live.execution is not None:
            yield self._message(
                truncated=exec_pb2.Truncated(
                    limit=live.execution.output_limit,
                    written=outcome.stdout_bytes + outcome.stderr_bytes,
                    delivered=live.journal.end,
                )
            )
        last = convert.outcome(outcome)
        last.truncated = last.truncated or missed
        yield self._message(outcome=last)

    async def _until(self, event: asyncio.Future[Any]) -> AsyncIterator[exec_pb2.ExecResponse]:
        """Keepalives until `event` is done. It is not cancelled: others wait for it, too."""
        loop = asyncio.get_running_loop()
        while not event.done():
            self._waiting = loop.create_future()
            event.add_done_callback(self._wake)
            timer = loop.call_later(self._keepalive_s, self._wake)
            try:
                if self._broken is None:
                    await self._waiting
            finally:
                timer.cancel()
                event.remove_done_callback(self._wake)
            if self._broken is not None:
                raise self._broken
            if not event.done():
                yield self._message(keepalive=exec_pb2.Keepalive())

    def _wake(self, _: object = None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _message(self, **event: Any) -> exec_pb2.ExecResponse:  # noqa: ANN401 - a field and its value
        self._sequence += 1
        return exec_pb2.ExecResponse(sequence=self._sequence, **event)


async def feed(
    live: LiveCall, requests: AsyncIterator[exec_pb2.ExecRequest], *, stdin: bool, ends_with_stream: bool
) -> None:
    """Pass on what the client sends. Raises InvalidArgument for what is out of place.

    stdin: the call takes standard input. ends_with_stream: the client's half-close ends it; where the call outlives
    its clients, a lost connection must not look like an end of input.
    """
    async for request in requests:
        match request.WhichOneof("message"):
            case "stdin" if stdin:
                await live.stdin.put(request.stdin)
            case "close_stdin" if stdin:
                stdin = False
                await live.stdin.put(None)
            case "cancel":
                live.cancel("by the client")
            case "resize":
                size = exec_messages.terminal_of(request.resize)
                with suppress(NotFound):  # it has ended, which its outcome says
                    await _running(live).resize(size)
            case "signal":
                number = exec_messages.signal_of(request.signal.signal)
                with suppress(Conflict, NotFound):
                    await live.signal(number, whole_tree=request.signal.whole_tree)
            case other:
                raise InvalidArgument(
                    "the message is out of place in this stream", value=other or "nothing", remedy="See exec.proto."
                )
    if stdin and ends_with_stream:
        await live.stdin.put(None)


def _running(live: LiveCall) -> Execution:
    if live.execution is None:
        raise InvalidArgument("the call does not run", remedy="Wait for `started`.")
    return live.execution
