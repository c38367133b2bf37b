"""What one process needs of a host to run batches: cells, a canary, listeners, the kernel's log, a peer."""

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Final, Self

from opensafe.errors import OpenSafeError
from opensafe.proof import private
from opensafe.proof.escape.cell import Cell, Cells
from opensafe.warden.sandbox.layout import GUEST_TOOLS

from . import arena
from .canary import Canary
from .kernel import Kernel
from .listening import Listening
from .notes import Notes
from .oracles import Finding, Oracle

EXECUTOR: Final = "proof/sequence"
_HEARTBEAT_S: Final = 10.0
#: getpid, by the tool that every sandbox has.
_HEARTBEAT: Final = (f"{GUEST_TOOLS}/probe", "syscall", "39")


class Site:
    """Opened once; batches share it. executor: the guest's program."""

    def __init__(self, cells: Cells, canary: Canary, listening: Listening, kernel: Kernel, peer: Cell) -> None:
        self.cells, self.canary, self.listening, self.kernel = cells, canary, listening, kernel
        self.executor = pathlib.Path(private.programs().native, EXECUTOR).read_bytes()
        ground = arena.Ground(canary=str(canary.directory), listener=str(listening.path), ports=listening.ports)
        self.image = arena.image(ground)
        self._peer = peer
        #: Of runsc in all sandboxes so far: what the kernel's log says of others is not ours.
        self.pids: set[int] = set()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, notes: Notes | None = None) -> AsyncIterator[Self]:
        """Make all of it, and remove it. Needs root. Raises SandboxStartFailed, OSError."""
        note = notes.add if notes is not None else lambda _: None
        async with contextlib.AsyncExitStack() as stack:
            canary = stack.enter_context(Canary.planted())
            note(canary.directory)
            listening = await stack.enter_async_context(Listening.open(canary.directory))
            canary.settle()
            cells = await stack.enter_async_context(Cells.open())
            note(cells.layout.run)
            peer = await stack.enter_async_context(cells.cell())
            kernel = stack.enter_context(contextlib.closing(Kernel()))
            yield cls(cells, canary, listening, kernel, peer)

    def look(self) -> Iterator[Finding]:
        """What of the host, beside a sandbox, can be looked at in a millisecond."""
        yield from self.canary.look()
        yield from self.listening.look()
        yield from self.kernel.look(self.pids)

    @contextlib.contextmanager
    def watched(self, found: Callable[[Iterable[Finding]], None]) -> Iterator[None]:
        """Around a batch. found: hears what is seen before and after. Raises HostUnsuitable for what was not."""
        found(self.look())
        with self.kernel.heard():
            yield
            found(self.look())

    async def heartbeat(self) -> list[Finding]:
        """The peer answers as ever."""
        try:
            async with asyncio.timeout(_HEARTBEAT_S):
                said = (await self._peer.run(self._peer.launch(*_HEARTBEAT))).text
        except (OpenSafeError, TimeoutError) as error:
            return [Finding(oracle=Oracle.BOUNDS, what=f"the peer did not answer: {type(error).__name__}: {error}")]
        if not said.startswith("result="):
            return [Finding(oracle=Oracle.BOUNDS, what=f"the peer answered {said!r}")]
        return []
