"""A session of the sandbox API: a connection, a session of the daemon, and the sandboxes made in it."""

from __future__ import annotations  # AsyncSandbox exists for the type checker only

from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Unpack

from opensafe.errors import Conflict, NotFound
from opensafe.model.usage import Limits, Usage

from ._client import Client
from ._discovery import find_socket
from ._opening import Opening
from ._retry import repeating
from ._run_options import Defaults, SandboxOptions, SessionOptions, defaults_of, known, socket_path

if TYPE_CHECKING:
    from ._async_sandbox import AsyncSandbox


class AsyncSession:
    """Made by `create` or `connect`. Sandboxes of one session share its budgets, its history and its trace."""

    def __init__(self, client: Client, session_id: str, defaults: Defaults, resources: AsyncExitStack) -> None:
        """resources: what ends with it."""
        self._client = client
        self.session_id = session_id
        self.defaults = defaults
        self._resources = resources
        self._closed = False

    @property
    def client(self) -> Client:
        """Its connection. Raises Conflict once the session is closed."""
        if self._closed:
            raise Conflict("the session is closed", value=self.session_id, remedy="Open another one.")
        return self._client

    @property
    def closed(self) -> bool:
        """Whether it is closed, and its sandboxes with it."""
        return self._closed

    @classmethod
    def create(cls, agent: str = "agent", **options: Unpack[SessionOptions]) -> Opening[AsyncSession]:
        """A new session, which ends with its sandboxes when it is closed. agent: the name that traces and bans carry.

        Raises Unavailable where there is no daemon, LimitExceeded, NotPermitted.
        """
        known(options, SessionOptions)
        return Opening(lambda: _open(agent, "", owned=True, options=options))

    @classmethod
    def connect(
        cls, session_id: str, *, owned: bool = False, **options: Unpack[SessionOptions]
    ) -> Opening[AsyncSession]:
        """A session that is there already, such as that of a program which was killed. owned: closing this ends it."""
        known(options, SessionOptions)
        return Opening(lambda: _open("", session_id, owned=owned, options=options))

    def sandbox(self, **options: Unpack[SandboxOptions]) -> Opening[AsyncSandbox]:
        """A new sandbox, deleted when it is closed. Raises Denied, SandboxStartFailed, NoWarmSandbox, LimitExceeded."""
        from ._async_sandbox import made_in

        known(options, SandboxOptions)
        return Opening(lambda: made_in(self, options, AsyncExitStack()))

    def connect_sandbox(self, sandbox_id: str, *, owned: bool = False) -> Opening[AsyncSandbox]:
        """One that is there already; it need not be of this session. owned: closing it deletes it. Raises NotFound."""
        from ._async_sandbox import found_in

        return Opening(lambda: found_in(self, sandbox_id, AsyncExitStack(), owned=owned))

    async def report_usage(self, *, tokens: int = 0, cost_microusd: int = 0, output_tokens: int | None = None) -> Usage:
        """Declare what the daemon can't see, as Client.report_usage has it."""
        return await self.client.report_usage(
            self.session_id, tokens=tokens, cost_microusd=cost_microusd, output_tokens=output_tokens
        )

    async def aclose(self) -> None:
        """End the session where it was made here, and the connection. Once is enough."""
        self._closed = True
        await self._resources.aclose()


async def _open(agent: str, session_id: str, *, owned: bool, options: SessionOptions) -> AsyncSession:
    defaults = defaults_of(options)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client.connect(socket_path(options, find_socket)))
        if not session_id:
            session_id = await client.create_session(
                agent, options.get("conversation_id", ""), options.get("limits", Limits())
            )

        async def end() -> None:
            with suppress(NotFound):  # somebody closed it meanwhile
                await repeating(defaults.retry, lambda: client.close_session(session_id))

        if owned:
            stack.push_async_callback(end)
        resources = stack.pop_all()
    return AsyncSession(client, session_id, defaults, resources)
