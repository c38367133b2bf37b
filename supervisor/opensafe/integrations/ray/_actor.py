"""The actor on a host: the client of the daemon there.

It keeps nothing that the next one could not do without: whatever it is asked names session, sandbox and call. What goes
wrong is an answer and not an exception, since Ray would wrap that.
"""

import os
from typing import Any

from opensafe.client import AsyncSandbox, Client, CommandResult, find_socket, trace_context
from opensafe.errors import NotFound, OpenSafeError, Unavailable

from ._sent import Place, Request

#: The label of each sandbox that tells its pool, and the one that tells its claim.
POOL_LABEL, CLAIM_LABEL = "opensafe.rollouts/pool", "opensafe.rollouts/claim"


class HostActor:
    """One event loop, all of whose methods run side by side."""

    def __init__(self, principal: str | None) -> None:
        """principal: whose socket of this host; OPENSAFE_SOCKET, or the first that may be used, where it is None."""
        self._principal = principal
        self._boxes: dict[str, AsyncSandbox] = {}

    async def hello(self) -> str | OpenSafeError:
        """The daemon's socket, once the daemon answers."""
        try:
            socket = find_socket(self._principal)
            async with Client.connect(socket) as client:
                if not await client.health():
                    return Unavailable("the daemon does not serve", value=socket)
        except OpenSafeError as error:
            return error
        return os.fspath(socket)

    async def open(
        self, claim_id: str, agent: str, options: dict[str, Any], carrier: dict[str, str], *, again: bool
    ) -> Place | OpenSafeError:
        """A sandbox for a claim, in a session of its own. again: take the one that an earlier actor made, if any."""
        try:
            with trace_context(carrier):
                if again and (place := await self._made_before(claim_id)) is not None:
                    return place
                box = await AsyncSandbox.create(agent, socket=self._socket(), conversation_id=claim_id, **options)
        except OpenSafeError as error:
            return error
        place = Place(session_id=box.session.session_id, sandbox_id=box.sandbox_id)
        self._boxes[place.session_id] = box
        return place

    async def call(self, place: Place, request: Request, *, again: bool) -> CommandResult | OpenSafeError:
        """Run a call, or hear how it ended where it is known. again: an actor that is lost may have begun it."""
        try:
            with trace_context(request.carrier):
                box = await self._box(place)
                options: Any = request.options
                if again and options.get("stdin") is not None:  # which went with the actor that is lost
                    try:
                        return await box.resume(request.call_id)
                    except NotFound:
                        pass
                return await box.tool(request.tool, request.arguments, call_id=request.call_id, **options)
        except OpenSafeError as error:
            return error

    async def cancel(self, place: Place, call_id: str) -> OpenSafeError | None:
        """Kill a call that nobody waits for any more."""
        try:
            await (await self._box(place)).cancel(call_id)
        except OpenSafeError as error:
            return error
        return None

    async def close(self, place: Place) -> OpenSafeError | None:
        """End a claim's session, its calls and its sandbox. Once is enough."""
        try:
            box = await self._box(place)
            self._boxes.pop(place.session_id, None)
            await box.aclose()
        except NotFound:
            return None
        except OpenSafeError as error:
            return error
        return None

    async def sweep(self, pool_id: str) -> OpenSafeError | None:
        """End every session that still has a sandbox of this pool."""
        try:
            async with Client.connect(self._socket()) as client:
                for sandbox in await client.list_sandboxes(labels={POOL_LABEL: pool_id}):
                    if sandbox.state not in ("deleting", "deleted"):
                        await self.close(Place(session_id=sandbox.session_id, sandbox_id=sandbox.sandbox_id))
        except OpenSafeError as error:
            return error
        return None

    async def _made_before(self, claim_id: str) -> Place | None:
        async with Client.connect(self._socket()) as client:
            for sandbox in await client.list_sandboxes(labels={CLAIM_LABEL: claim_id}, states=("running",)):
                return Place(session_id=sandbox.session_id, sandbox_id=sandbox.sandbox_id)
        return None

    async def _box(self, place: Place) -> AsyncSandbox:
        box = self._boxes.get(place.session_id)
        if box is None:
            box = await AsyncSandbox.connect(place.session_id, place.sandbox_id, owned=True, socket=self._socket())
            box = self._boxes.setdefault(place.session_id, box)
        return box

    def _socket(self) -> str:
        return os.fspath(find_socket(self._principal))
