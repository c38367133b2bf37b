"""Breaches made on purpose: an oracle that stays silent over its own proves nothing by its silence elsewhere.

Each is the campaign's own run, with one thing opened, and must be raised before any run of the campaign counts.
"""

import asyncio
import contextlib
import pathlib
import subprocess
from collections.abc import AsyncIterator, Callable
from typing import Final

import msgspec

from opensafe.proof.escape.cell import Cell
from opensafe.proof.escape.weakening import Bind, Weakening

from . import running
from .arena import MOUNTED
from .batch import Batch, Kind
from .canary import Canary
from .oracles import Finding, Oracle
from .running import Planted
from .site import Site

#: Runs of each: the first reaches for all, the others are drawn as ever.
_RUNS: Final = 12
_PLANTED_S: Final = "600"


class SelfCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A breach that was planted. wanted: oracles that had to raise; missing: those of them that did not."""

    name: str
    wanted: tuple[Oracle, ...]
    missing: tuple[Oracle, ...]
    findings: tuple[Finding, ...]

    @property
    def raised(self) -> bool:
        """Whether all did."""
        return not self.missing


async def run(site: Site, seed: int, done: Callable[[SelfCheck], None] = lambda _: None) -> tuple[SelfCheck, ...]:
    """Plant each, one after the other."""
    checks = []
    for name, wanted, planted in breaches(site.canary):
        batch = Batch(seed=seed, number=0, size=_RUNS, kinds=(Kind.SHIPPED,))
        ended = await running.run(site, batch, planted)
        raised = {finding.oracle for finding in ended.findings}
        missing = tuple(oracle for oracle in wanted if oracle not in raised)
        checks.append(SelfCheck(name=name, wanted=wanted, missing=missing, findings=ended.findings))
        site.canary.settle()
        done(checks[-1])
    return tuple(checks)


def breaches(canary: Canary) -> tuple[tuple[str, tuple[Oracle, ...], Planted], ...]:
    """Each with its name and the oracles that must raise."""
    seen = Weakening(binds=(Bind(source=canary.directory, destination=MOUNTED),))
    changed = Weakening(binds=(Bind(source=canary.directory, destination=MOUNTED, writable=True),))
    return (
        ("the canary is mounted in the guest", (Oracle.NONCE,), Planted(weakening=seen)),
        (
            "the guest has the host's network",
            (Oracle.FRAME, Oracle.ACCEPT),
            Planted(weakening=Weakening(host_network=True)),
        ),
        ("the call filter is off", (Oracle.POLICY,), Planted(filtered=False)),
        ("a process of the host's joins the sandbox", (Oracle.PROCESS,), Planted(act=_joined)),
        ("the canary can be written to", (Oracle.CANARY, Oracle.NONCE), Planted(weakening=changed)),
    )


@contextlib.asynccontextmanager
async def _joined(cell: Cell) -> AsyncIterator[None]:
    """What an escaped program would be: another than runsc, in the group that it inherited."""
    process = await asyncio.create_subprocess_exec("sleep", _PLANTED_S, stdin=subprocess.DEVNULL, cwd="/")
    try:
        await asyncio.to_thread(_join, cell, process.pid)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _join(cell: Cell, pid: int) -> None:
    for directory in cell.cgroup.directories:
        pathlib.Path(directory, "cgroup.procs").write_text(str(pid))
