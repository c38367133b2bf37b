"""Run a batch of system call sequences, with the oracles before, meanwhile and after."""

import asyncio
import collections
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Final

import msgspec

from opensafe.errors import DriverError, OpenSafeError
from opensafe.proof.escape.cell import Cell, Output
from opensafe.proof.escape.weakening import AS_SHIPPED, Weakening

from . import bounds, corpus, generator, listening, reaching, wire
from .answers import Expectation
from .batch import Batch, Done, Kind
from .bounds import Bounds
from .oracles import Finding, Oracle
from .processes import Tree
from .sampling import sampled
from .site import Site
from .wire import Answer, Sequence

#: Of one sequence, after which its process is ended.
LIMIT_US: Final = 60_000
_PROFILE: Final = "default"
_PROGRAM: Final = "/workspace/sequence"
#: A sequence can find its own program, and gVisor lets a file be written that is executed.
_MODE: Final = "555"
_SAMPLE_S: Final = 0.25
_DEADLINE_S: Final = 90.0
_ERRNO_MAX: Final = 4095
_TRIES: Final = 2


class Planted(msgspec.Struct, frozen=True, kw_only=True):
    """A breach made on purpose. filtered: the call filter is there. act: done to each cell before its runs."""

    weakening: Weakening = AS_SHIPPED
    filtered: bool = True
    act: Callable[[Cell], contextlib.AbstractAsyncContextManager[None]] = lambda _: contextlib.nullcontext()


AS_IT_IS: Final = Planted()


def sequences(batch: Batch) -> dict[int, Sequence]:
    """The runs of a batch of system calls, by their numbers. Raises InvalidArgument where its corpus is not here."""
    first, *others = batch.runs
    filtered = batch.kind is Kind.SHIPPED
    inputs = corpus.of(batch.corpus).system_calls
    made = {
        run: generator.sequence(corpus.data_of(batch.seed, run, inputs, generator.BYTES), filtered=filtered)
        for run in others
    }
    return {first: reaching.sequence(), **made}


async def run(
    site: Site,
    batch: Batch,
    planted: Planted = AS_IT_IS,
    wanted: Mapping[int, Sequence] | None = None,
    found: dict[Finding, None] | None = None,
) -> Done:
    """All of a batch's runs; wanted: these instead. found: what an earlier try has found; takes in what this one does,
    however it ends. Raises SandboxStartFailed, DriverError, HostUnsuitable.
    """
    return await _Running(site, batch, planted, wanted or sequences(batch), {} if found is None else found).done()


class _Running:
    def __init__(
        self, site: Site, batch: Batch, planted: Planted, wanted: Mapping[int, Sequence], found: dict[Finding, None]
    ) -> None:
        self._site, self._batch, self._planted, self._wanted, self._findings = site, batch, planted, wanted, found
        self._todo = dict.fromkeys(wanted, 0)
        self._expectation = Expectation(_PROFILE) if batch.kind is Kind.SHIPPED else None
        self._calls: collections.Counter[int] = collections.Counter()
        self._answers: collections.Counter[int] = collections.Counter()
        self._short: list[int] = []
        self._lost: list[int] = []
        self._completed = 0
        self._sandboxes = 0

    async def done(self) -> Done:
        begun = time.monotonic()
        with self._site.watched(self._found):
            while self._todo:
                async with self._cell() as cell:
                    await self._execute(cell)
        return Done(
            number=self._batch.number,
            kind=self._batch.kind,
            completed=self._completed,
            short=tuple(self._short),
            lost=tuple(self._lost),
            sandboxes=self._sandboxes,
            findings=tuple(self._findings),
            calls=dict(self._calls),
            answers=dict(self._answers),
            seconds=round(time.monotonic() - begun, 3),
        )

    @contextlib.asynccontextmanager
    async def _cell(self) -> AsyncIterator[Cell]:
        """A sandbox that is watched from before its first run until nothing of it is left."""
        site, self._sandboxes = self._site, self._sandboxes + 1
        async with site.cells.cell(self._planted.weakening) as cell:
            tree, limits = Tree(cell.cgroup, site.cells.layout.runsc), Bounds(cell.cgroup)
            await cell.put(_PROGRAM, site.executor, _MODE)
            self._found(self._look(tree))
            if not self._planted.weakening:
                self._found(tree.begun())
            async with self._planted.act(cell), sampled(_SAMPLE_S, lambda: self._sample(tree)):
                yield cell
            if cell.sandbox.death.done():
                self._found([Finding(oracle=Oracle.DEATH, what=f"the sandbox ended: {cell.sandbox.cause}")])
            self._found(self._look(tree))
            for look in (tree.posture, tree.scan):
                self._found(await asyncio.to_thread(list, look()))
            self._found(await asyncio.to_thread(list, site.kernel.compare()))
            self._found(limits.look())
            if not self._planted.weakening.host_network:
                with contextlib.suppress(OSError):
                    self._found(listening.frames_of(tree.sentry))
        container = cell.sandbox.container
        self._found(bounds.remains(site.cells.layout, site.cells.hierarchies, container))

    def _look(self, tree: Tree) -> list[Finding]:
        found = [*tree.look(), *self._site.look()]
        self._site.pids |= tree.pids
        return found

    async def _sample(self, tree: Tree) -> None:
        self._found(self._look(tree))
        self._found(await self._site.heartbeat())

    async def _execute(self, cell: Cell) -> None:
        """Run what is left, as far as the executor gets. What it did not get to waits for the next sandbox."""
        data = wire.encode(self._site.image, ((run, self._wanted[run]) for run in self._todo), LIMIT_US)
        launch = cell.launch(_PROGRAM)
        filtered = self._planted.filtered and self._batch.kind is Kind.SHIPPED
        execute = cell.run if filtered else cell.unfiltered
        try:
            output: Output = await execute(launch, data, _DEADLINE_S)
        except (OpenSafeError, TimeoutError) as error:
            if not cell.sandbox.death.done():
                raise DriverError(f"the executor can't be run: {error}") from error
            output = Output(stdout=b"", stderr=b"")
        self._found(self._site.canary.heard(output.stdout, output.stderr))
        told = wire.decode(output.stdout)
        for answer in told.answers:
            self._judge(answer)
        under_way = told.under_way if told.under_way is not None else next(iter(self._todo), None)
        if under_way in self._todo:
            self._todo[under_way] += 1
            if self._todo[under_way] >= _TRIES:
                del self._todo[under_way]
                self._lost.append(under_way)

    def _judge(self, answer: Answer) -> None:
        sequence = self._wanted[answer.id]
        self._todo.pop(answer.id, None)
        if answer.made >= generator.LEAST:
            self._completed += 1
        else:
            self._short.append(answer.id)
        self._calls.update(call.number for call in sequence.calls[: answer.made])
        self._answers.update(-result if -_ERRNO_MAX <= result < 0 else 0 for result in answer.results)
        if self._expectation is not None:
            for miss in self._expectation.misses(sequence, answer):
                what = f"call {miss.at}, number {miss.number}: wanted {miss.wanted}, got {miss.got}"
                self._found([Finding(oracle=Oracle.POLICY, what=what, run=answer.id)])

    def _found(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self._findings[msgspec.structs.replace(finding, batch=self._batch.number)] = None
