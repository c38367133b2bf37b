"""A session and a sandbox for one call: those that are there, or new ones that end with it unless they are kept."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from opensafe.client import Client
from opensafe.errors import OpenSafeError

from . import present

#: The agent's name in traces of calls made from a shell.
AGENT: Final = "opensafe-cli"


class Place(msgspec.Struct):
    """Where to run. kept: what was made for this call stays after it."""

    session_id: str
    sandbox_id: str
    kept: bool = False

    def keep(self) -> None:
        """Let it stay, and say so."""
        if not self.kept:
            self.kept = True
            sandbox = self.sandbox_id
            present.say(f"kept sandbox {sandbox}; remove it with `opensafe sandbox rm {sandbox}`")


@asynccontextmanager
async def opened(client: Client, sandbox_id: str | None, *, keep: bool) -> AsyncIterator[Place]:
    """The session and sandbox to run in; what was made for this call alone ends with it."""
    if sandbox_id is not None:
        sandbox = await client.get_sandbox(sandbox_id)
        yield Place(sandbox.session_id, sandbox.sandbox_id, kept=True)
        return
    place = Place(await client.create_session(AGENT), "")
    try:
        with present.progress("making a sandbox"):
            place.sandbox_id = (await client.create_sandbox(place.session_id)).sandbox_id
        if keep:
            place.keep()
        yield place
    finally:
        if not place.kept:
            await _close(client, place.session_id)


async def _close(client: Client, session_id: str) -> None:
    try:
        await client.close_session(session_id)
    except OpenSafeError as error:  # the call's own end is what the caller asked for
        present.say(f"session {session_id} was not closed: {error}")
