"""Exec: one tool call a stream, started or attached to; and calls looked at without a stream."""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec

from opensafe._proto.v1 import exec_pb2, exec_pb2_grpc
from opensafe.control.live import LiveCall, Submission
from opensafe.errors import InvalidArgument, OpenSafeError
from opensafe.gate import Gate
from opensafe.model.calls import Principal
from opensafe.model.carrier import from_metadata

from . import exec_messages
from .exec_stream import Answers, feed


class _Opened(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream is about. offset: where its output begins. stdin: this client may send it; `ends_stdin`: its
    half-close ends it. background: the stream ends with the start.
    """

    live: LiveCall
    offset: int = 0
    stdin: bool
    ends_stdin: bool = False
    wait_for_review: bool
    background: bool = False


class ExecService(exec_pb2_grpc.ExecServiceServicer):
    """One principal's calls. keepalive_s: how long a stream may be quiet."""

    def __init__(self, gate: Gate, principal: Principal, keepalive_s: float) -> None:
        self._gate = gate
        self._principal = principal
        self._keepalive_s = keepalive_s

    async def Exec(  # noqa: N802 - the name of the RPC
        self,
        request_iterator: AsyncIterator[exec_pb2.ExecRequest],
        context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> AsyncIterator[exec_pb2.ExecResponse]:
        """The way of one call; see exec.proto."""
        arrived = time.monotonic_ns()
        first = await anext(request_iterator, exec_pb2.ExecRequest())
        opened = await self._open(first, trace_carrier(context), arrived)
        live = opened.live
        reader = live.attach(opened.offset)
        answers = Answers(live, reader, self._keepalive_s)
        feeding = asyncio.create_task(
            feed(live, request_iterator, stdin=opened.stdin, ends_with_stream=opened.ends_stdin), name="exec-requests"
        )
        feeding.add_done_callback(partial(_report, answers))
        try:
            async for response in answers.messages(
                wait_for_review=opened.wait_for_review, background=opened.background
            ):
                yield response
        finally:
            live.detach(reader)
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)

    async def ListCalls(  # noqa: N802 - the name of the RPC
        self,
        request: exec_pb2.ListCallsRequest,
        _context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> exec_pb2.ListCallsResponse:
        """See exec.proto."""
        page = self._gate.calls.page(
            self._principal,
            request.session_id,
            state=exec_messages.call_state_of(request.state),
            tag=request.tag,
            size=request.page_size,
            cursor=request.cursor,
        )
        calls = [exec_messages.call(row, *self._gate.calls.retained(row)) for row in page.rows]
        return exec_pb2.ListCallsResponse(calls=calls, next_cursor=page.next_cursor)

    async def GetCall(  # noqa: N802 - the name of the RPC
        self,
        request: exec_pb2.GetCallRequest,
        _context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> exec_pb2.GetCallResponse:
        """See exec.proto."""
        row = self._gate.calls.find(self._principal, request.session_id, request.call_id)
        return exec_pb2.GetCallResponse(call=exec_messages.call(row, *self._gate.calls.retained(row)))

    async def SignalCall(  # noqa: N802 - the name of the RPC
        self,
        request: exec_pb2.SignalCallRequest,
        _context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> exec_pb2.SignalCallResponse:
        """See exec.proto."""
        async with self._gate.noted(
            self._principal, session_id=request.session_id, call_id=request.call_id, request="SignalCall"
        ):
            await self._gate.calls.signal(
                self._principal,
                request.session_id,
                request.call_id,
                exec_messages.signal_of(request.signal),
                whole_tree=request.whole_tree,
            )
        return exec_pb2.SignalCallResponse()

    async def _open(self, first: exec_pb2.ExecRequest, carrier: dict[str, str], arrived_ns: int) -> "_Opened":
        match first.WhichOneof("message"):
            case "start":
                start = first.start
                async with self._gate.noted(
                    self._principal, session_id=start.session_id, call_id=start.call_id, tool=start.tool
                ):
                    asked, keep = exec_messages.asked_of(start), exec_messages.keep_of(start)
                live = await self._gate.submit(
                    Submission(
                        principal=self._principal,
                        session_id=start.session_id,
                        sandbox_id=start.sandbox_id,
                        call_id=start.call_id,
                        tool=start.tool,
                        arguments_json=start.arguments_json,
                        stdin=start.stdin,
                        asked=asked,
                        keep=keep,
                        carrier=carrier,
                        arrived_ns=arrived_ns,
                    )
                )
                return _Opened(
                    live=live,
                    stdin=start.stdin and live.submission.stdin,
                    ends_stdin=not live.submission.keep,
                    wait_for_review=start.wait_for_review,
                    background=start.background,
                )
            case "attach":
                wanted = first.attach
                live = self._gate.attach(self._principal, wanted.session_id, wanted.call_id, tag=wanted.tag)
                return _Opened(
                    live=live,
                    offset=wanted.offset,
                    stdin=live.submission.stdin,
                    wait_for_review=wanted.wait_for_review,
                )
        raise InvalidArgument("the first message must be `start` or `attach`", remedy="Send StartCall first.")


def _report(answers: Answers, feeding: asyncio.Task[None]) -> None:
    """What went wrong with a client's requests is answered in its stream."""
    error = None if feeding.cancelled() else feeding.exception()
    if isinstance(error, OpenSafeError):
        answers.fail(error)
    elif error is not None:
        answers.fail(OpenSafeError("the requests could not be read"))


def trace_carrier(context: Any) -> dict[str, str]:  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    """The W3C trace context of the caller's metadata."""
    return from_metadata(context.invocation_metadata() or ())
