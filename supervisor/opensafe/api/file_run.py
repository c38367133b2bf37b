"""One file operation as a call of its tool: submitted to the gate like any other, and read to a typed end.

What policy says no to, and what the guest could not do, are exceptions here: a typed answer has no place for them.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from opensafe import errors
from opensafe._proto.v1 import files_pb2
from opensafe.control.judge import Verdict
from opensafe.control.live import LiveCall, Submission
from opensafe.execution.journal import STDOUT, Chunk, Reader
from opensafe.gate import Gate
from opensafe.model.calls import Principal
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind

from . import file_records

#: Standard error kept: a thousand records and a line.
_STDERR_MAX: Final = 1001 * file_records.MAX_RECORD


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A file operation. stdin: content follows the call."""

    call: files_pb2.FileCall
    tool: str
    arguments: dict[str, Any]
    stdin: bool = False


class FileRun:
    """A call under way. Read `output` to its end; it raises where the operation was not done."""

    def __init__(self, live: LiveCall, reader: Reader, verdict: Verdict, path: str) -> None:
        self.live = live
        self.verdict = verdict
        self.stderr = b""
        self.status = 0
        self._reader = reader
        self._path = path

    async def output(self) -> AsyncIterator[bytes]:
        """Standard output in pieces. Raises FileError, SandboxLost and what ended the call."""
        while not self._reader.ended:
            match self._reader.take():
                case None:
                    await self._reader.more()
                case Chunk() as chunk if chunk.stream == STDOUT:
                    yield chunk.data
                case Chunk() as chunk:
                    self.stderr = (self.stderr + chunk.data)[:_STDERR_MAX]
                case _:
                    raise errors.FileFailed(
                        "the call ran before, and its output is no longer kept", value=self._path,
                        remedy="Send it under a fresh call_id.",
                    )  # fmt: skip
        self._reader.take()
        self._check(await _outcome(self.live))

    async def whole(self) -> bytes:
        """All of the output; what a call may print is bounded by its grant."""
        return b"".join([data async for data in self.output()])

    def _check(self, outcome: Outcome) -> None:
        if outcome.kind is OutcomeKind.LOST:
            raise errors.SandboxLost("the sandbox or the daemon ended under the call", value=outcome.detail)
        if outcome.kind is not OutcomeKind.EXITED:
            words = outcome.kind.value.replace("_", " ")
            raise errors.FileFailed(f"the call ended: {words}", value=self._path, limit=outcome.detail)
        self.status = outcome.exit_code or 0
        if outcome.truncated or self.status not in (0, file_records.PARTIAL):
            raise file_records.failure(self.status, self.stderr, self._path)


@asynccontextmanager
async def begin(gate: Gate, principal: Principal, wanted: Wanted, carrier: dict[str, str]) -> AsyncIterator[FileRun]:
    """Submit the call; on leaving, a call that still runs is cancelled.

    Raises Denied where policy or a reviewer says no, ReviewPending where a reviewer has to be waited for and the
    client does not wait, and what Gate.submit raises.
    """
    call = wanted.call
    live = await gate.submit(
        Submission(
            principal=principal,
            session_id=call.session_id,
            sandbox_id=call.sandbox_id,
            call_id=call.call_id,
            tool=wanted.tool,
            arguments_json=msgspec.json.encode(wanted.arguments),
            stdin=wanted.stdin,
            carrier=carrier,
            arrived_ns=time.monotonic_ns(),
        )
    )
    reader = live.attach()
    try:
        verdict = await _allowed(live, wait=call.wait_for_review)
        yield FileRun(live, reader, verdict, wanted.arguments["path"])
    finally:
        live.detach(reader)


async def _allowed(live: LiveCall, *, wait: bool) -> Verdict:
    verdict = await _verdict(live)
    if verdict.decision.action is Action.REVIEW and live.parked:
        if not wait:
            raise errors.ReviewPending(
                f"parked for a reviewer: {_why(verdict)}", value=verdict.review_id,
                remedy="Wait for the verdict, or send the same call again once it is approved.",
            )  # fmt: skip
        verdict = await _reconsidered(live, verdict)
    if verdict.decision.action is Action.ALLOW:
        return verdict
    hits = verdict.decision.deciding()
    raise errors.Denied(
        f"blocked by policy: {_why(verdict)}", value=hits[0].value if hits else verdict.decision_id,
        remedy=hits[0].remedy if hits else "", rules=hits,
    )  # fmt: skip


async def _reconsidered(live: LiveCall, first: Verdict) -> Verdict:
    if await asyncio.shield(live.resumed):
        return await _verdict(live)
    outcome = await _outcome(live)
    words = outcome.kind.value.replace("_", " ")
    raise errors.Denied(
        f"the review ended: {words}", value=first.review_id, limit=outcome.detail,
        rules=first.decision.deciding(), outcome=outcome.kind.value,
    )  # fmt: skip


def _why(verdict: Verdict) -> str:
    return "; ".join(f"{hit.id}: {hit.reason}" for hit in verdict.decision.deciding()[:3])


async def _verdict(live: LiveCall) -> Verdict:
    return await asyncio.shield(live.verdict)


async def _outcome(live: LiveCall) -> Outcome:
    return await asyncio.shield(live.outcome)
