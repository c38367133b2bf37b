"""The call under way, as the daemon tells it: its verdict, a review's end, its output and outcome.

One stream carries a call from `gate` to its end and goes from state to state in memory. Where it is gone, since the
process is another one or the connection was lost, the same request is sent again under the same call_id: the daemon
never runs it twice, and goes on with the first or answers with what became of it. A call outlives its client
(`on_disconnect` is keep), or a planner that is killed would kill what it waits for.
"""

import contextlib
from typing import Final

import msgspec

from opensafe.client import Call as Stream
from opensafe.client import Client, Decided, Ended, Gap, Started, Stderr, Stdout, Verdict
from opensafe.errors import NotFound, Unavailable
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind

from .state import Call, RunState


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A call's outcome and what it wrote. verdict: the last, None where the daemon gave none."""

    outcome: Outcome
    verdict: Verdict | None
    stdout: str = ""
    stderr: str = ""
    missed: int = 0


class Calls:
    """The streams of one run's calls, at most one at a time."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._stream: Stream | None = None
        self._call_id = ""
        self._verdict: Verdict | None = None

    async def send(self, state: RunState, *, wait: bool) -> Verdict:
        """Send the run's first queued call, again or for the first time; its verdict. wait: for a review, too."""
        await self.close()
        call = state["queue"][0]
        self._stream = self._client.call(
            state["session_id"],
            state["sandbox_id"],
            call["call_id"],
            call["tool"],
            call["arguments"],
            wait_for_review=wait,
            on_disconnect="keep",
        )
        self._call_id = call["call_id"]
        said = await self.word()
        if isinstance(said, Finished):
            raise Unavailable("the daemon reported an outcome without a verdict")
        return said

    def holds(self, call: Call) -> bool:
        """Whether the call's stream is open."""
        return self._stream is not None and self._call_id == call["call_id"]

    async def word(self) -> Verdict | Finished:
        """The next verdict, or the outcome of a call that did not run."""
        async for event in self._open():
            match event:
                case Decided(verdict):
                    self._verdict = verdict
                    return verdict
                case Ended(outcome):
                    return Finished(outcome=outcome, verdict=self._verdict)
                case _:
                    raise Unavailable("the call runs, and its verdict was not told")
        raise Unavailable("the daemon ended the stream without an outcome")

    async def finish(self, kept: int) -> Finished:
        """Read the call to its end; of each stream `kept` bytes, half from its head and half from its end."""
        streams = {Stdout: _Text(kept), Stderr: _Text(kept)}
        missed = 0
        async for event in self._open():
            match event:
                case Decided(verdict):
                    self._verdict = verdict
                case Stdout() | Stderr():
                    streams[type(event)].add(event.data)
                case Gap(start, end):
                    missed += end - start
                case Ended(outcome):
                    return Finished(
                        outcome=outcome,
                        verdict=self._verdict,
                        stdout=streams[Stdout].text(),
                        stderr=streams[Stderr].text(),
                        missed=missed,
                    )
        raise Unavailable("the daemon ended the stream without an outcome")

    async def cancel(self, state: RunState) -> None:
        """End the call under way, if the daemon knows it and it runs. One that waits for a reviewer is never run."""
        await self.close()
        call = state["queue"][0]
        stream = self._client.attach(state["session_id"], call["call_id"])
        async with contextlib.aclosing(stream):
            with contextlib.suppress(NotFound):  # it was never sent
                async for event in stream:
                    if isinstance(event, Started):
                        await stream.cancel()

    async def close(self) -> None:
        """Let go of the stream, which the call outlives."""
        stream, self._stream, self._verdict = self._stream, None, None
        if stream is not None:
            await stream.aclose()

    def _open(self) -> Stream:
        if self._stream is None:
            raise Unavailable("the call's stream is not open")
        return self._stream


def undecided(said: Verdict | Finished) -> bool:
    """Whether a call still waits for its reviewer."""
    if isinstance(said, Finished):
        return said.outcome.kind is OutcomeKind.REVIEW_PENDING
    return said.action is Action.REVIEW


_CUT: Final = "\n[… {} bytes are left out here …]\n"


class _Text:
    """The head and the end of a stream of bytes, `kept` together."""

    def __init__(self, kept: int) -> None:
        self._half = max(kept // 2, 1)
        self._head, self._tail, self._size = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        self._size += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        if rest := data[room:]:
            self._tail = (self._tail + rest)[-self._half :]

    def text(self) -> str:
        left_out = self._size - len(self._head) - len(self._tail)
        if left_out:
            head, tail = (bytes(part).decode(errors="replace") for part in (self._head, self._tail))
            return head + _CUT.format(left_out) + tail
        return bytes(self._head + self._tail).decode(errors="replace")
