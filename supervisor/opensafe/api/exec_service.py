"""Exec: one tool call a stream. Requests feed standard input and cancel; responses are verdict, output, outcome."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from opensafe._proto.v1 import exec_pb2, exec_pb2_grpc
from opensafe.control.live import LiveCall, Submission
from opensafe.errors import InvalidArgument
from opensafe.execution.journal import STDOUT
from opensafe.gate import Gate
from opensafe.model.calls import Principal
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind

from . import convert


class ExecService(exec_pb2_grpc.ExecServiceServicer):
    """One principal's calls."""

    def __init__(self, gate: Gate, principal: Principal) -> None:
        self._gate = gate
        self._principal = principal

    async def Exec(  # noqa: N802 - the name of the RPC
        self,
        request_iterator: AsyncIterator[exec_pb2.ExecRequest],
        context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> AsyncIterator[exec_pb2.ExecResponse]:
        """The way of one call; see exec.proto."""
        arrived = time.monotonic_ns()
        first = await anext(request_iterator, None)
        if first is None or first.WhichOneof("message") != "start":
            raise InvalidArgument("the first message must be `start`", remedy="Send StartCall first.")
        start = first.start
        live = await self._gate.submit(
            Submission(
                principal=self._principal,
                session_id=start.session_id,
                sandbox_id=start.sandbox_id,
                call_id=start.call_id,
                tool=start.tool,
                arguments_json=start.arguments_json,
                stdin=start.stdin,
                carrier=trace_carrier(context),
                arrived_ns=arrived,
            )
        )
        paced = live.attach()
        feeding = asyncio.create_task(_feed(live, request_iterator, stdin=start.stdin), name="exec-requests")
        try:
            async for response in _responses(live, wait_for_review=start.wait_for_review, paced=paced):
                yield response
        finally:
            live.detach()
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


async def _responses(live: LiveCall, *, wait_for_review: bool, paced: bool) -> AsyncIterator[exec_pb2.ExecResponse]:
    verdict = await asyncio.shield(live.verdict)
    yield exec_pb2.ExecResponse(decided=convert.decision(verdict))
    if verdict.decision.action is Action.REVIEW and live.parked:
        if not wait_for_review:
            pending = Outcome(kind=OutcomeKind.REVIEW_PENDING, detail=verdict.review_id)
            yield exec_pb2.ExecResponse(outcome=convert.outcome(pending))
            return
        second = await live.reconsidered()
        if second is not None:
            yield exec_pb2.ExecResponse(decided=convert.decision(second))
    if live.execution is not None:
        await live.execution.started.wait()
        yield exec_pb2.ExecResponse(started=exec_pb2.StartedCall(exec_id=live.execution.exec_id))
    missed, position = False, 0
    async for chunk in live.journal.read(paced=paced):
        missed = missed or chunk.offset != position
        position = chunk.offset + len(chunk.data)
        if chunk.stream == STDOUT:
            yield exec_pb2.ExecResponse(stdout=chunk.data)
        else:
            yield exec_pb2.ExecResponse(stderr=chunk.data)
    message = convert.outcome(await asyncio.shield(live.outcome))
    message.truncated = message.truncated or missed
    yield exec_pb2.ExecResponse(outcome=message)


async def _feed(live: LiveCall, requests: AsyncIterator[exec_pb2.ExecRequest], *, stdin: bool) -> None:
    """Pass on what the client sends. Its half-close ends standard input and nothing else."""
    open_stdin = stdin
    async for request in requests:
        match request.WhichOneof("message"):
            case "stdin" if open_stdin:
                await live.stdin.put(request.stdin)
            case "close_stdin" if open_stdin:
                open_stdin = False
                await live.stdin.put(None)
            case "cancel":
                live.cancel()
            case _:
                live.cancel()  # a client that breaks the protocol does not know what it runs
                return
    if open_stdin:
        await live.stdin.put(None)


def trace_carrier(context: Any) -> dict[str, str]:  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    """The W3C trace context of the caller's metadata."""
    wanted = ("traceparent", "tracestate")
    return {key: value for key, value in context.invocation_metadata() or () if key in wanted}
