"""One call of a tool behind the proxy: judged by the daemon, sent to the server once or not at all, its end on record.

    Begin ─► permit ──► the server ──► Finish
      ├────► review ──► pending; the same call sent again asks again, under its call_id
      └────► block

A permit is for one run, so whatever happens after the call was sent, it is never sent again: an end that nobody saw is
reported as lost, to the daemon and to the agent.
"""

import asyncio
import hashlib
import json
import time
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
import mcp_types as types
import msgspec
from mcp import MCPError
from mcp_types import REQUEST_TIMEOUT
from pydantic import ValidationError

from opensafe.client import Client, Denied, Permit, Retry, ReviewPending, Unavailable, Verdict, trace_context
from opensafe.errors import Conflict, LimitExceeded, OpenSafeError
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind

from .proxy_upstream import ServerGone

#: Calls that wait for a reviewer, and are known again when they are sent again.
MAX_PARKED: Final = 256
#: Bytes of a call's arguments, as the daemon takes them.
MAX_ARGUMENTS: Final = 4 << 20
#: The part of a permit's time that a call may take, so that its end is told in time.
_OF_PERMIT: Final = 0.9

Send = Callable[[float, Mapping[str, str]], Awaitable[types.CallToolResult]]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is wanted. shown, pinned: digests of the tool's description, now and as approved."""

    tool: str
    arguments: dict[str, Any]
    shown: str
    pinned: str


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: the server's result, and the verdict that allowed it."""

    result: types.CallToolResult
    verdict: Verdict
    call_id: str
    carrier: dict[str, str]


class Gate:
    """All calls of one session. wait_s: how long a call waits for a reviewer before it is answered as pending."""

    def __init__(self, client: Client, session_id: str, *, pending: int, call_s: float, wait_s: float) -> None:
        self._client, self._session_id = client, session_id
        self._most, self._call_s, self._wait_s = pending, call_s, wait_s
        self._under_way = 0
        self._parked: OrderedDict[str, str] = OrderedDict()
        self._turns: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._retry = Retry(attempts=30)  # some forty seconds: a daemon that is started anew
        #: Set to a reason where an end could not be put on record.
        self.untold = ""

    async def call(self, asked: Asked, send: Send, carrier: Mapping[str, str]) -> Answered:
        """Judge the call and, where it is allowed, send it.

        carrier: the client's trace context. Raises Denied, ReviewPending, LimitExceeded, ServerGone, Unavailable and
        the daemon's other errors.
        """
        text = json.dumps(asked.arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        content = text.encode("utf-8", "surrogatepass")
        if len(content) > MAX_ARGUMENTS:
            raise LimitExceeded(
                "the arguments are too large; nothing was executed",
                value=f"{len(content)} bytes",
                limit=f"{MAX_ARGUMENTS} bytes",
                remedy="Send less.",
            )
        if self._under_way >= self._most:
            raise LimitExceeded(
                "too many calls are under way; nothing was executed",
                value=self._under_way,
                limit=f"{self._most} calls",
                remedy="Wait for some of them to end.",
            )
        self._under_way += 1
        try:
            with trace_context(carrier):
                permit, call_id = await self._permitted(asked, content)
                return await self._run(call_id, permit, send, carrier)
        finally:
            self._under_way -= 1

    async def _permitted(self, asked: Asked, content: bytes) -> tuple[Permit, str]:
        """The permit, and the call_id that it is for: the parked one's where the same call was parked before."""
        key = hashlib.sha256(f"{asked.tool}\n{asked.shown}\n".encode() + content).hexdigest()
        turn = self._turns.get(key) or asyncio.Lock()
        self._turns[key] = turn
        async with turn:  # of two that fetch one approval, the second is a call of its own
            call_id = self._parked.get(key) or f"mcp-{uuid.uuid4().hex}"
            try:
                permit = await self._begin(call_id, asked)
            except OpenSafeError as error:
                if not isinstance(error, Unavailable):
                    self._parked.pop(key, None)
                error.call_id = call_id
                raise
            if not permit.permit and permit.outcome is None and permit.verdict.action is Action.REVIEW:
                self._park(key, call_id)
                raise _pending(permit.verdict, call_id)
            self._parked.pop(key, None)
        if not permit.permit:
            raise _denied(permit, call_id)
        return permit, call_id

    def _park(self, key: str, call_id: str) -> None:
        self._parked[key] = call_id
        while len(self._parked) > MAX_PARKED:
            self._parked.popitem(last=False)  # it stays parked at the daemon, and expires there

    async def _begin(self, call_id: str, asked: Asked) -> Permit:
        if not self._wait_s:
            return await self._begun(call_id, asked, wait=False)
        try:
            async with asyncio.timeout(self._wait_s):
                return await self._begun(call_id, asked, wait=True)
        except TimeoutError:
            return await self._begun(call_id, asked, wait=False)

    async def _begun(self, call_id: str, asked: Asked, *, wait: bool) -> Permit:
        failures = 0
        while True:
            try:
                return await self._client.begin(
                    self._session_id,
                    call_id,
                    asked.tool,
                    asked.arguments,
                    description_digest=asked.shown,
                    pinned_digest=asked.pinned,
                    wait_for_review=wait,
                )
            except Unavailable:
                failures += 1
                if failures >= self._retry.attempts:
                    raise
            except Conflict as error:
                if not failures:
                    raise
                # The permit was given in an answer that was lost; nobody has it, and it ends as lost.
                raise Unavailable(
                    "the daemon's answer was lost; nothing was executed", value=error, remedy="Send the call again."
                ) from error
            await self._retry.pause(failures)

    async def _run(self, call_id: str, permit: Permit, send: Send, carrier: Mapping[str, str]) -> Answered:
        """Send it, once. The permit is used up however this ends."""
        sent = time.monotonic_ns()
        left = (permit.expires_unix_ns / 1e9 - time.time()) * _OF_PERMIT
        timeout = min(self._call_s, left)
        outcome = Outcome(kind=OutcomeKind.LOST, detail="the proxy ended")
        onward = dict(carrier) or _own_context(permit.verdict, call_id)
        try:
            result = await send(timeout, onward)
            size = len(result.model_dump_json(by_alias=True, exclude_none=True))
            outcome = Outcome(
                kind=OutcomeKind.EXITED, exit_code=int(result.is_error), detail=f"a result of {size} bytes"
            )
            return Answered(result=result, verdict=permit.verdict, call_id=call_id, carrier=onward)
        except asyncio.CancelledError:
            outcome = Outcome(kind=OutcomeKind.LOST, detail="the client cancelled the call; the server was told")
            raise
        except (MCPError, ValidationError) as error:
            outcome, told = _failure(error, timeout, call_id)
            raise told from error
        except ServerGone as error:
            outcome = Outcome(kind=OutcomeKind.LOST, detail=str(error)[:300])
            error.call_id = call_id
            raise
        finally:
            outcome = msgspec.structs.replace(outcome, run_ns=time.monotonic_ns() - sent)
            with anyio.CancelScope(shield=True):
                await self._finish(permit.permit, outcome)

    async def _finish(self, permit: str, outcome: Outcome) -> None:
        """Put the end on record. Where that fails the permit ends as lost, and the result stands all the same."""
        failures = 0
        while True:
            try:
                return await self._client.finish(self._session_id, permit, outcome)
            except Unavailable as error:
                failures += 1
                if failures >= self._retry.attempts:
                    self.untold = str(error)
                    return None
            except OpenSafeError as error:
                if not (failures and isinstance(error, Conflict)):  # it had arrived
                    self.untold = str(error)
                return None
            await self._retry.pause(failures)


def _own_context(verdict: Verdict, call_id: str) -> dict[str, str]:
    """A trace context where the client has none: the daemon's trace, so that the server's spans are found with it."""
    if len(verdict.trace_id) != 32:
        return {}
    return {"traceparent": f"00-{verdict.trace_id}-{call_id[-16:]}-01"}


def _failure(error: Exception, timeout: float, call_id: str) -> tuple[Outcome, OpenSafeError]:
    """The end on record and for the agent, of a call that was sent and did not come back as a result."""
    told: OpenSafeError
    if not isinstance(error, MCPError):
        told = ServerGone(
            "the server's answer is no result; the call may have been executed", value=type(error).__name__
        )
        outcome = Outcome(kind=OutcomeKind.LOST, detail="the answer is no result")
    elif error.code == REQUEST_TIMEOUT:
        told = ServerGone(
            "the server did not answer in time and was told to stop; the call may have been executed",
            value=f"{timeout:.0f} s",
            remedy="Look at what it did before you send it again.",
        )
        outcome = Outcome(kind=OutcomeKind.LOST, detail=f"no answer within {timeout:.0f} s")
    elif error.code == types.CONNECTION_CLOSED:
        told = ServerGone(
            "the server is gone; the call may have been executed",
            remedy="Look at what it did before you send it again.",
        )
        outcome = Outcome(kind=OutcomeKind.LOST, detail="the server is gone")
    else:
        told = OpenSafeError(f"the server refused the call: {error.message[:1000]}", value=error.code)
        outcome = Outcome(kind=OutcomeKind.EXITED, exit_code=1, detail=f"JSON-RPC error {error.code}")
    told.call_id = call_id
    return outcome, told


def _pending(verdict: Verdict, call_id: str) -> ReviewPending:
    hits = verdict.deciding()
    error = ReviewPending(
        f"parked for a reviewer: {'; '.join(f'{hit.id}: {hit.reason}' for hit in hits[:3])}",
        value=verdict.review_id,
        remedy="Send the same call again once it is approved; it is executed once.",
    )
    error.rules, error.call_id = hits, call_id
    return error


def _denied(permit: Permit, call_id: str) -> Denied:
    hits = permit.verdict.deciding() or permit.verdict.rules
    outcome = permit.outcome
    parts = [
        outcome.detail if outcome is not None and outcome.detail else "",
        *(f"{hit.id}: {hit.reason}" for hit in hits[:3]),
    ]
    error = Denied(
        "; ".join(part for part in parts if part),
        value=hits[0].value if hits else "",
        remedy=hits[0].remedy if hits else "",
        rules=hits,
        outcome=outcome.kind.value if outcome is not None else OutcomeKind.BLOCKED.value,
    )
    error.call_id = call_id
    return error
