"""What these probes stand on: daemons, each begun when the first probe asks for it, and what they have written."""

import contextlib
import os
import pathlib
import tempfile
from collections.abc import AsyncIterator, Iterable
from functools import partial
from typing import Final, Self

from opensafe.proof.escape.cell import Cells
from opensafe.proof.escape.keeping import Keeping
from opensafe.proof.mutants import Mutant, planted

from .history import History
from .mutants import DAEMONS
from .site import Site

#: The daemon as it is shipped; the others are of `mutants.DAEMONS`.
SHIPPED: Final = "shipped"


class Yard:
    """All of them."""

    def __init__(self, stack: contextlib.AsyncExitStack, keeping: Keeping) -> None:
        self._stack = stack
        self._kept = keeping.kept

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls) -> AsyncIterator[Self]:
        """Nothing runs yet; whatever does is ended at last."""
        os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # or it speaks up at every fork; no child uses it
        async with contextlib.AsyncExitStack() as stack:
            yield cls(stack, await stack.enter_async_context(Keeping.open()))

    async def site(self, name: str = SHIPPED) -> Site:
        """The running daemon of this name."""
        return await self._kept(name, partial(_site, name))

    async def cells(self) -> Cells:
        """Where sandboxes are made without a daemon."""
        return await self._kept("cells", Cells.open)

    async def history(self) -> History:
        """What a daemon has written, for copies to be made of."""
        return await self._kept("history", _history)

    async def source(self, mutants: Iterable[Mutant]) -> pathlib.Path:
        """The package with these faults, for as long as the yard stands."""
        return self._stack.enter_context(planted(*mutants))


@contextlib.asynccontextmanager
async def _site(name: str) -> AsyncIterator[Site]:
    with contextlib.ExitStack() as stack:
        source = None if name == SHIPPED else stack.enter_context(planted(*DAEMONS[name]))
        async with Site.open(source) as site:
            yield site


@contextlib.asynccontextmanager
async def _history() -> AsyncIterator[History]:
    with tempfile.TemporaryDirectory(prefix="opensafe-history-") as path:
        history = History(pathlib.Path(path))
        async with Site.open() as site:
            await history.live(site)
        yield history
