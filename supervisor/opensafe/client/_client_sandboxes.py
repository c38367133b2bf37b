"""What a client can ask of sessions and sandboxes."""

from collections.abc import AsyncIterator, Mapping, Sequence

from opensafe._proto.v1 import sandbox_pb2, session_pb2
from opensafe.model.usage import Limits, Usage

from . import _sandboxes, _trace, _wire
from ._connection import Connection
from ._failures import stream
from ._files import Files
from ._types import CreatedSandbox, Lease, SandboxInfo, SandboxPage, SandboxSize


class SandboxMethods(Connection):
    """Sessions, sandboxes and their files."""

    async def create_session(
        self,
        agent: str,
        conversation_id: str = "",
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> str:
        """A new session's id. `agent` and `conversation_id` stand in traces and identify nobody.

        limits: ceilings of this session alone; the site's hold as well, so these can only be tighter.
        """
        request = session_pb2.CreateSessionRequest(
            agent=agent, conversation_id=conversation_id, limits=_wire.budget_message(limits)
        )
        return (await self._ask(self._sessions.CreateSession(request, metadata=_trace.metadata()))).session_id

    async def close_session(self, session_id: str) -> None:
        """End a session, its running calls and its sandboxes."""
        await self._ask(self._sessions.CloseSession(session_pb2.CloseSessionRequest(session_id=session_id)))

    async def report_usage(
        self, session_id: str, *, tokens: int = 0, cost_microusd: int = 0, output_tokens: int | None = None
    ) -> Usage:
        """Declare what the daemon can't see (cost in millionths of a dollar). Returns the session's totals of both.

        It only ever adds; at most 10^9 of each a report. output_tokens: how many of the tokens the model wrote, for the
        trace. Raises InvalidArgument, LimitExceeded.
        """
        request = session_pb2.ReportUsageRequest(
            session_id=session_id, tokens=tokens, cost_microusd=cost_microusd, output_tokens=output_tokens
        )
        total = await self._ask(self._sessions.ReportUsage(request))
        return Usage(tokens=total.tokens, cost_microusd=total.cost_microusd)

    async def create_sandbox(
        self,
        session_id: str,
        template: str = "",
        size: SandboxSize = SandboxSize(),  # noqa: B008 - frozen
        *,
        labels: Mapping[str, str] = {},
        lease: Lease = Lease(),  # noqa: B008 - frozen
        network: str = "",
        require_warm: bool = False,
    ) -> CreatedSandbox:
        """Make a sandbox of a runner image ("" is `base`). Policy judges the request: Denied is its no.

        labels: at most 16, for lists. network: `none`, or where the site has a way out `gateway`; "" for that.
        require_warm: one out of the pool or none, which is NoWarmSandbox. Raises LimitExceeded, SandboxStartFailed.
        """
        request = _sandboxes.create_request(
            session_id, template, size, labels, lease, network, require_warm=require_warm
        )
        answer = await self._ask(self._sandboxes.CreateSandbox(request, metadata=_trace.metadata()))
        return CreatedSandbox(
            sandbox=_sandboxes.sandbox(answer.sandbox),
            verdict=_wire.verdict(answer.decision),
            create_ns=answer.create_ns,
            warm=answer.warm,
            claim_ns=answer.claim_ns,
        )

    async def get_sandbox(self, sandbox_id: str) -> SandboxInfo:
        """One sandbox of this principal. Raises NotFound, also for one that is deleted."""
        request = sandbox_pb2.GetSandboxRequest(sandbox_id=sandbox_id)
        return _sandboxes.sandbox((await self._ask(self._sandboxes.GetSandbox(request))).sandbox)

    async def list_sandboxes(
        self, *, labels: Mapping[str, str] | None = None, states: Sequence[str] = (), session_id: str = ""
    ) -> tuple[SandboxInfo, ...]:
        """This principal's sandboxes, oldest first: with all of the labels, in one of the states (or not deleted)."""
        found: list[SandboxInfo] = []
        cursor = ""
        while True:
            page = await self.list_sandbox_page(
                labels=labels, states=states, session_id=session_id, page_size=1000, cursor=cursor
            )
            found += page.sandboxes
            cursor = page.next_cursor
            if not cursor:
                return tuple(found)

    async def list_sandbox_page(
        self,
        *,
        labels: Mapping[str, str] | None = None,
        states: Sequence[str] = (),
        session_id: str = "",
        page_size: int = 0,
        cursor: str = "",
    ) -> SandboxPage:
        """One page of such a list, of at most 1000. The cursor holds for the same filter. Raises InvalidArgument."""
        request = _sandboxes.list_request(labels, states, session_id, page_size, cursor)
        return _sandboxes.page(await self._ask(self._sandboxes.ListSandboxes(request)))

    async def renew_sandbox(self, sandbox_id: str, ttl_s: int = 0) -> SandboxInfo:
        """Let it live `ttl_s` seconds from now; 0: as long as the site allows. Raises NotFound, LimitExceeded."""
        request = sandbox_pb2.RenewSandboxRequest(sandbox_id=sandbox_id, ttl_s=ttl_s)
        return _sandboxes.sandbox((await self._ask(self._sandboxes.RenewSandbox(request))).sandbox)

    async def pause_sandbox(self, sandbox_id: str) -> SandboxInfo:
        """Stop everything in it. Raises NotFound, Conflict, SandboxLost."""
        request = sandbox_pb2.PauseSandboxRequest(sandbox_id=sandbox_id)
        return _sandboxes.sandbox((await self._ask(self._sandboxes.PauseSandbox(request))).sandbox)

    async def resume_sandbox(self, sandbox_id: str) -> SandboxInfo:
        """Let it go on. Raises NotFound, Conflict, SandboxLost."""
        request = sandbox_pb2.ResumeSandboxRequest(sandbox_id=sandbox_id)
        return _sandboxes.sandbox((await self._ask(self._sandboxes.ResumeSandbox(request))).sandbox)

    async def delete_sandbox(self, sandbox_id: str, *, wait: bool = True) -> None:
        """End and remove a sandbox. Without `wait` it returns before that is done. Raises NotFound, SandboxError."""
        request = sandbox_pb2.DeleteSandboxRequest(sandbox_id=sandbox_id, wait=wait)
        await self._ask(self._sandboxes.DeleteSandbox(request))

    async def watch_sandboxes(self) -> AsyncIterator[SandboxInfo]:
        """Those that live, then each at every change. Raises LimitExceeded where one reads too slowly: watch again."""
        with stream(self._sandboxes.WatchSandboxes(sandbox_pb2.WatchSandboxesRequest()), self._path) as messages:
            async for message in messages:
                yield _sandboxes.sandbox(message.sandbox)

    def files(self, session_id: str, sandbox_id: str) -> Files:
        """The files of a sandbox."""
        return Files(self._channel, self._path, session_id, sandbox_id)
