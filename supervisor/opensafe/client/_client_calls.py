"""What a client can ask of calls: run them, attach to them, look at them."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from opensafe._proto.v1 import exec_pb2
from opensafe.model.sandbox import Terminal

from . import _exec_wire
from ._calls import Call, Stdin, encode_arguments
from ._collect import collect
from ._connection import Connection
from ._events import CallResult
from ._types import CallInfo, CallPage, RunLimits

#: Bytes of each stream that `run_call` keeps.
KEPT_OUTPUT: Final = 1 << 20


class CallMethods(Connection):
    """Calls that the daemon runs."""

    def call(
        self,
        session_id: str,
        sandbox_id: str,
        call_id: str,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        stdin: Stdin = None,
        interactive: bool = False,
        wait_for_review: bool = False,
        tag: str = "",
        on_disconnect: Literal["kill", "keep"] = "kill",
        background: bool = False,
        terminal: Terminal | None = None,
        limits: RunLimits = RunLimits(),  # noqa: B008 - frozen
    ) -> Call:
        """Run one tool call and iterate over what happens to it; `Ended` comes last.

        call_id is the caller's, unique in the session: repeated, it attaches to the first run or returns its
        outcome, and never runs twice. Without `stdin` the program's standard input is closed; `interactive` leaves it
        open for `Call.send`, from here or from whoever attaches. Leaving the iteration early (close it with
        `contextlib.aclosing`) cancels the call, unless it is kept. Nothing is buffered: a slow reader slows the
        program.

        tag: a name to find it by. on_disconnect: `keep` lets it go on without clients, and lets this one attach again
        by itself where it loses the connection. background: keep, and end the events with Started. terminal: give the
        program one. limits: for this run, beside those granted.

        Raises InvalidArgument, UnknownTool, NotFound, Conflict, LimitExceeded, Unavailable.
        """
        keep = background or on_disconnect == "keep"
        start = _exec_wire.start_call(
            session_id=session_id,
            sandbox_id=sandbox_id,
            call_id=call_id,
            tool=tool,
            arguments_json=encode_arguments(arguments),
            stdin=stdin is not None or interactive,
            wait_for_review=wait_for_review,
            tag=tag,
            background=background,
            on_disconnect=exec_pb2.ON_DISCONNECT_KEEP if keep else exec_pb2.ON_DISCONNECT_KILL,
            terminal=terminal,
            limits=limits,
        )
        return Call(self._link, exec_pb2.ExecRequest(start=start), stdin=stdin, resumes=keep)

    def attach(
        self, session_id: str, call_id: str = "", *, tag: str = "", offset: int = 0, wait_for_review: bool = False
    ) -> Call:
        """The events of a call that somebody started: its verdict and start again, then output from `offset` on.

        By its id, or else by a tag: the call with it that has not ended, or the latest. Where the connection is lost it
        attaches again. Raises NotFound, InvalidArgument, Unavailable.
        """
        place = _exec_wire.attach_call(session_id, call_id, tag, offset, wait_for_review=wait_for_review)
        return Call(self._link, exec_pb2.ExecRequest(attach=place), resumes=True)

    async def run_call(
        self,
        session_id: str,
        sandbox_id: str,
        call_id: str,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        stdin: Stdin = None,
        wait_for_review: bool = False,
        tag: str = "",
        on_disconnect: Literal["kill", "keep"] = "kill",
        limits: RunLimits = RunLimits(),  # noqa: B008 - frozen
        keep: int = KEPT_OUTPUT,
    ) -> CallResult:
        """`call`, collected: the first `keep` bytes of each stream and the count of what was left out."""
        return await collect(
            self.call(
                session_id,
                sandbox_id,
                call_id,
                tool,
                arguments,
                stdin=stdin,
                wait_for_review=wait_for_review,
                tag=tag,
                on_disconnect=on_disconnect,
                limits=limits,
            ),
            keep,
        )

    async def list_calls(
        self, session_id: str, *, state: str = "", tag: str = "", page_size: int = 0, cursor: str = ""
    ) -> CallPage:
        """Calls of a session, the latest first. state: parked, running, ended or "" for any.

        page_size: at most 1000; 0 is the daemon's default. Raises NotFound, InvalidArgument.
        """
        request = exec_pb2.ListCallsRequest(
            session_id=session_id, state=_exec_wire.call_state(state), tag=tag, page_size=page_size, cursor=cursor
        )
        answer = await self._ask(self._exec.ListCalls(request))
        return CallPage(calls=tuple(_exec_wire.call(call) for call in answer.calls), next_cursor=answer.next_cursor)

    async def get_call(self, session_id: str, call_id: str) -> CallInfo:
        """One call. Raises NotFound."""
        request = exec_pb2.GetCallRequest(session_id=session_id, call_id=call_id)
        return _exec_wire.call((await self._ask(self._exec.GetCall(request))).call)

    async def signal_call(self, session_id: str, call_id: str, signal: int, *, whole_tree: bool = False) -> None:
        """Signal a running call's program, or all of its processes. Raises NotFound, Conflict where it does not run."""
        request = exec_pb2.SignalCallRequest(
            session_id=session_id, call_id=call_id, signal=signal, whole_tree=whole_tree
        )
        await self._ask(self._exec.SignalCall(request))
