"""Where the calls of one MCP session run: a session of the daemon's and a sandbox, made when the first call comes.

The sandbox lives on a short lease that is renewed as long as this process lives, so that it is gone soon after,
however that one ends. One that was lost is replaced; the session stays, and with it its budgets and its history.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

import anyio
import msgspec

from opensafe.client import AsyncSandbox, AsyncSession, Lease, SandboxOptions, SessionOptions
from opensafe.errors import LimitExceeded, NotFound, OpenSafeError, SandboxError

#: Calls of one MCP session at a time; more are refused at once.
MAX_CALLS: Final = 16

Answer = TypeVar("Answer")


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What sessions and sandboxes are made with. lease_s: how long a sandbox outlives a server that was killed."""

    agent: str = "mcp"
    principal: str | None = None
    template: str = ""
    network: str = ""
    lease_s: int = 120


class Place:
    """One MCP session's. Closing it ends all of it."""

    def __init__(self, wish: Wish) -> None:
        self._wish = wish
        self._making = asyncio.Lock()
        self._session: AsyncSession | None = None
        self._sandbox: AsyncSandbox | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._calls = 0
        #: An edit reads and writes: held by one at a time, no other edit's change is lost.
        self.editing = asyncio.Lock()

    @asynccontextmanager
    async def call(self) -> AsyncIterator[AsyncSandbox]:
        """The sandbox, for one call. Raises LimitExceeded, and what making a sandbox raises.

        A sandbox that is gone is forgotten, so that the next call gets another.
        """
        if self._calls >= MAX_CALLS:
            raise LimitExceeded(
                "too many calls are under way in this session",
                value=self._calls,
                limit=f"{MAX_CALLS} calls",
                remedy="Wait for some of them to end.",
            )
        self._calls += 1
        try:
            yield await self._current()
        except (SandboxError, NotFound):
            await owned(self._look())
            raise
        finally:
            self._calls -= 1

    async def aclose(self) -> None:
        """End session, sandbox and what runs in it."""
        async with self._making:
            await self._stop_renewing()
            session, self._session, self._sandbox = self._session, None, None
            if session is not None:
                await session.aclose()  # its sandboxes end with it

    async def _current(self) -> AsyncSandbox:
        async with self._making:
            if self._sandbox is None:
                self._sandbox = await owned(self._made())
                self._renewing = asyncio.create_task(self._renew(self._sandbox), name="opensafe-mcp-lease")
            return self._sandbox

    async def _made(self) -> AsyncSandbox:
        lease = Lease(ttl_s=self._wish.lease_s)
        options = SandboxOptions(template=self._wish.template, network=self._wish.network, lease=lease)
        if self._session is not None:
            try:
                return await self._session.sandbox(**options)
            except NotFound:  # the daemon was set up anew
                session, self._session = self._session, None
                await session.aclose()
        self._session = await AsyncSession.create(self._wish.agent, **SessionOptions(principal=self._wish.principal))
        return await self._session.sandbox(**options)

    async def _look(self) -> None:
        """Forget the sandbox if it is gone."""
        async with self._making:
            if self._sandbox is None:
                return
            try:
                if (await self._sandbox.info()).state in ("running", "paused"):
                    return
            except NotFound:
                pass
            except OpenSafeError:
                return  # nobody knows: the next call will see
            await self._forget()

    async def _stop_renewing(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
            self._renewing = None

    async def _forget(self) -> None:
        await self._stop_renewing()
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            with suppress(OpenSafeError):  # it ends with its session, and with its lease
                await sandbox.aclose()

    async def _renew(self, sandbox: AsyncSandbox) -> None:
        while True:
            await asyncio.sleep(self._wish.lease_s / 3)
            with suppress(OpenSafeError):  # the next call says what is wrong
                await sandbox.renew(self._wish.lease_s)


class Places:
    """Those of all MCP sessions of this server."""

    def __init__(self, wish: Wish) -> None:
        self._wish = wish
        self._open: set[Place] = set()
        self._only: Place | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def open(self) -> Place:
        """A new one."""
        place = Place(self._wish)
        self._open.add(place)
        return place

    def only(self) -> Place:
        """That of a process which is one session."""
        self._only = self._only or self.open()
        return self._only

    def retire(self, place: Place) -> None:
        """Close one without waiting for it; `aclose` waits."""
        self._open.discard(place)
        task = asyncio.create_task(_closed(place), name="opensafe-mcp-end")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def aclose(self) -> None:
        """Close all of them."""
        for place in tuple(self._open):
            self.retire(place)
        await asyncio.gather(*self._ending)


async def _closed(place: Place) -> None:
    with suppress(OpenSafeError):  # without a daemon there is nothing to end
        await place.aclose()


async def owned(work: Coroutine[Any, Any, Answer]) -> Answer:
    """`work` in a task of its own, which is cancelled once and waited for.

    The SDK's cancel scopes cancel every wait anew, in which no request could be ended properly.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task})
    finally:
        if not task.done():
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({task})
    return task.result()
