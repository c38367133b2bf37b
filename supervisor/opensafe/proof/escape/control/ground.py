"""What these probes stand on: daemons, each begun when the first probe asks for it, and what they have written."""

import asyncio
import contextlib
import os
import pathlib
import tempfile
from collections.abc import AsyncIterator, Iterable
from typing import Final, Self

from opensafe.proof.escape.cell import Cells
from opensafe.proof.mutants import Mutant, planted

from .history import History
from .mutants import DAEMONS
from .site import Site

#: The daemon as it is shipped; the others are of `mutants.DAEMONS`.
SHIPPED: Final = "shipped"


class Yard:
    """All of them."""

    def __init__(self, stack: contextlib.AsyncExitStack) -> None:
        self._stack = stack
        self._sites: dict[str, Site] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._cells: Cells | None = None
        self._history: History | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls) -> AsyncIterator[Self]:
        """Nothing runs yet; whatever does is ended at last."""
        os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # or it speaks up at every fork; no child uses it
        async with contextlib.AsyncExitStack() as stack:
            yield cls(stack)

    async def site(self, name: str = SHIPPED) -> Site:
        """The running daemon of this name."""
        async with self._turns.setdefault(name, asyncio.Lock()):
            if name not in self._sites:
                source = None if name == SHIPPED else await self.source(DAEMONS[name])
                self._sites[name] = await self._stack.enter_async_context(Site.open(source))
            return self._sites[name]

    async def cells(self) -> Cells:
        """Where sandboxes are made without a daemon."""
        async with self._turns.setdefault("cells", asyncio.Lock()):
            if self._cells is None:
                self._cells = await self._stack.enter_async_context(Cells.open())
            return self._cells

    async def history(self) -> History:
        """What a daemon has written, for copies to be made of."""
        async with self._turns.setdefault("history", asyncio.Lock()):
            if self._history is None:
                path = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="opensafe-history-"))
                history = History(pathlib.Path(path))
                async with Site.open() as site:
                    await history.live(site)
                self._history = history
            return self._history

    async def source(self, mutants: Iterable[Mutant]) -> pathlib.Path:
        """The package with these faults, for as long as the yard stands."""
        return self._stack.enter_context(planted(*mutants))
