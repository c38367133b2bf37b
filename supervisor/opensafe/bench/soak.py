"""`opensafe bench soak`: does anything grow over very many evaluations and reloads?

In this process and without a daemon, on the parts that a front is made of: the engine, and the loader with its process
that prepares. Between two reloads the ordinary calls of `bench decision` are judged by turns, and every verdict has to
be the one that the call got first, on the revision in force.
"""

import asyncio
import gc
import hashlib
import itertools
import os
import pathlib
import tempfile
import time
from collections.abc import Iterator
from typing import Final

import msgspec

from opensafe.errors import OpenSafeError
from opensafe.model.policy_input import PolicyInput
from opensafe.policy.engine import Engine
from opensafe.policy.location import archived_path
from opensafe.policy.preparer import Preparer
from opensafe.policy.reload import Loader

from . import memory
from .decision import CALLS, ordinary
from .site import Site

#: What is done before the first look: caches and the allocator's arenas fill.
_WARM_UP: Final = 0.02
_QUARTERS: Final = 4
_LIMITS: Final = {"deadline_ms": 50, "memory_bytes": 64 << 20}


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """One look: evaluations and reloads since the first. Bytes: resident of this process and of the one that prepares
    (private ones would change with what is forked), and the guest's memory. Open descriptors, and threads.
    """

    evaluations: int
    reloads: int
    seconds: float
    rss: int
    preparer: int
    guest: int
    descriptors: int
    threads: int


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Looks at the start, after each quarter. wrong: verdicts that differed."""

    looks: tuple[Look, ...]
    wrong: int

    @property
    def growth(self) -> int:
        """Bytes of resident memory from the first look to the last, of the process that grew more."""
        first, last = self.looks[0], self.looks[-1]
        return max(last.rss - first.rss, last.preparer - first.preparer)

    def flat(self, most: int) -> bool:
        """Whether memory grew by no more than `most` bytes, and nothing else grew at all."""
        first, last = self.looks[0], self.looks[-1]
        same = all(getattr(last, name) <= getattr(first, name) for name in ("guest", "descriptors", "threads"))
        return same and self.growth <= most


def measure(evaluations: int, reloads: int) -> Measured:
    """Judge and reload so often. Raises OpenSafeError."""
    preparer = Preparer()  # before there are threads or a loop
    try:
        with tempfile.TemporaryDirectory(prefix="opensafe-bench-") as name:
            return asyncio.run(_measure(preparer, pathlib.Path(name), evaluations, reloads))
    finally:
        preparer.close()


async def _measure(preparer: Preparer, directory: pathlib.Path, evaluations: int, reloads: int) -> Measured:
    soak = _Soak(preparer, directory)
    await soak.reload()
    try:
        soak.ask()
        for _ in range(max(1, round(reloads * _WARM_UP))):
            await soak.reload()
            soak.judge(max(1, round(evaluations * _WARM_UP) // max(1, round(reloads * _WARM_UP))))
        soak.begin()
        looks = [soak.look()]
        done = 0
        for number in range(1, reloads + 1):
            await soak.reload()
            share = evaluations * number // reloads
            soak.judge(share - done)
            done = share
            if number * _QUARTERS // reloads > (number - 1) * _QUARTERS // reloads:
                looks.append(soak.look())
        return Measured(looks=tuple(looks), wrong=soak.wrong)
    finally:
        soak.close()


class _Soak:
    def __init__(self, preparer: Preparer, directory: pathlib.Path) -> None:
        self._directory = directory
        self._site = Site(directory / "site")
        self._loader = Loader(preparer, directory, (self._site.public.read_text(),), directory / "cache", **_LIMITS)
        self._preparing = _only_child()
        self._engine: Engine | None = None
        self._turns: Iterator[tuple[str, PolicyInput, str]] = iter(())
        self._evaluations = self._reloads = 0
        self._begun = 0.0
        self.wrong = 0

    async def reload(self) -> None:
        """The next number in force, its archive removed again."""
        content, _ = self._site.next({})
        path = archived_path(self._directory, hashlib.sha256(content).hexdigest())
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        loaded = await self._loader.load(path.name.partition(".")[0], optimise=True)
        path.unlink()
        old, self._engine = self._engine, loaded.engine
        if old is not None:
            old.close()
        self._reloads += 1

    def ask(self) -> None:
        """Remember what each call gets."""
        engine = self._serving()
        calls = [ordinary(engine, *call) for call in CALLS.values()]
        self._turns = itertools.cycle(
            [(call.entrypoint, call.asked, engine.evaluate(call.entrypoint, call.asked).action) for call in calls]
        )

    def judge(self, times: int) -> None:
        """Judge `times` calls by turns."""
        engine = self._serving()
        for entrypoint, asked, action in itertools.islice(self._turns, times):
            self.wrong += engine.evaluate(entrypoint, asked).action != action
        self._evaluations += times

    def begin(self) -> None:
        """Count from here."""
        self._evaluations = self._reloads = 0
        self._begun = time.monotonic()

    def look(self) -> Look:
        """What is in use now."""
        gc.collect()
        return Look(
            evaluations=self._evaluations,
            reloads=self._reloads,
            seconds=round(time.monotonic() - self._begun, 1),
            rss=memory.of(os.getpid()).rss,
            preparer=memory.of(self._preparing).rss,
            guest=self._serving().memory_size(),
            descriptors=len(os.listdir("/proc/self/fd")),
            threads=len(os.listdir("/proc/self/task")),
        )

    def close(self) -> None:
        """Free the engine."""
        if self._engine is not None:
            self._engine.close()

    def _serving(self) -> Engine:
        if self._engine is None:
            raise OpenSafeError("no bundle is in force")
        return self._engine


def _only_child() -> int:
    (child,) = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return int(child)
