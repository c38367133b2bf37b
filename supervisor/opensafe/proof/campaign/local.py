"""The engine on this host: a site, and as many batches at a time as there is room for."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, Self

import msgspec

from opensafe.errors import OpenSafeError

from . import running, selfcheck
from .batch import Batch, Done, Kind
from .gated import Gated
from .minimise import Minimal, minimise
from .notes import Notes
from .oracles import Finding, Oracle
from .selfcheck import SelfCheck
from .site import Site
from .wire import Sequence as Calls

#: Batches at a time: one of a sandbox's calls, one of a daemon's.
WIDTH: Final = 2
_TRIES: Final = 2
_FAULT_MAX: Final = 500


class Local:
    """Batches in this process. Made by `open`."""

    def __init__(self, site: Site, gated: Gated, width: int) -> None:
        self._site, self._gated, self._width = site, gated, width

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, width: int = WIDTH, notes: Notes | None = None) -> AsyncIterator[Self]:
        """Make the site and its daemon; what the notes tell of an earlier one is removed first. Needs root."""
        if notes is not None:
            await notes.sweep()
        async with Site.open(notes) as site, Gated.open(site, notes) as gated:
            yield cls(site, gated, width)
        if notes is not None:
            notes.clear()

    async def selfcheck(self, seed: int, done: Callable[[SelfCheck], None] = lambda _: None) -> tuple[SelfCheck, ...]:
        """See Engine."""
        return await selfcheck.run(self._site, self._gated, seed, done)

    async def run(self, batches: Sequence[Batch]) -> AsyncIterator[Done]:
        """See Engine."""
        waiting = asyncio.Queue[Done]()
        left = iter(batches)

        async def work() -> None:
            for batch in left:
                waiting.put_nowait(await self.one(batch))

        async with asyncio.TaskGroup() as group:
            for _ in range(self._width):
                group.create_task(work())
            for _ in batches:
                yield await waiting.get()

    async def one(self, batch: Batch) -> Done:
        """A batch. One that can't be run, twice, has lost all of its runs, and nothing that was found meanwhile."""
        faults: list[str] = []
        found: dict[Finding, None] = {}
        for _ in range(_TRIES):
            try:
                if batch.kind is Kind.GATED:
                    done = await self._gated.run(batch, found=found)
                else:
                    done = await running.run(self._site, batch, found=found)
                return msgspec.structs.replace(done, faults=tuple(faults))
            except (OpenSafeError, OSError, TimeoutError) as error:
                faults.append(f"{type(error).__name__}: {error}"[:_FAULT_MAX])
        return Done(
            number=batch.number,
            kind=batch.kind,
            completed=0,
            lost=tuple(batch.runs),
            findings=tuple(found),
            faults=tuple(faults),
        )

    async def minimise(self, batch: Batch, oracle: Oracle) -> Minimal | None:
        """The beginning of a batch of system calls that raises an oracle; None where it does not raise it again."""

        async def raises(wanted: dict[int, Calls]) -> bool:
            done = await running.run(self._site, batch, wanted=wanted)
            return any(finding.oracle is oracle for finding in done.findings)

        return await minimise(oracle, running.sequences(batch), raises)
