"""What `opensafe fuzz campaign` does."""

import asyncio
import contextlib
import pathlib
import secrets
from typing import Final

import msgspec

from opensafe.proof.campaign import campaign, figures, page
from opensafe.proof.campaign.campaign import Result
from opensafe.proof.campaign.notes import Notes
from opensafe.proof.campaign.progress import Progress, Settings

from . import ending, exits, present
from .report import encode, report

_NOTES: Final = "made"


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """Where batches run: cluster, on Ray's with its address; else here, so many at a time."""

    cluster: bool
    address: str | None
    width: int


def run(settings: Settings, where: Where, *, resume: pathlib.Path | None, html: pathlib.Path | None, json: bool) -> int:
    """Run it and tell of it. Raises HostUnsuitable where a planted breach stays unseen; InvalidArgument, OSError."""
    ending.on_sigterm()
    with contextlib.ExitStack() as stack:
        notes, progress = None, Progress(None, settings)
        if resume is not None:
            resume.mkdir(parents=True, exist_ok=True)
            notes = stack.enter_context(Notes.open(resume / _NOTES))  # before anything there is touched
            progress = stack.enter_context(contextlib.closing(Progress.open(resume, settings)))
        said = stack.enter_context(present.steps())
        result = asyncio.run(_run(where, progress, notes, said))
    return tell(result, html=html, json=json)


async def _run(where: Where, progress: Progress, notes: Notes | None, told: campaign.Told) -> Result:
    opened: contextlib.AbstractAsyncContextManager[campaign.Engine]
    if where.cluster:
        from opensafe.proof.campaign.cluster import Cluster

        opened = Cluster.open(progress.settings.seed, where.address)
    else:
        from opensafe.proof.campaign.local import Local

        opened = Local.open(where.width, notes)
    async with opened as engine:
        return await campaign.run(engine, progress, "ray" if where.cluster else "local", told)


def tell(result: Result, *, html: pathlib.Path | None, json: bool) -> int:
    """The report in its forms; the exit status."""
    summary = figures.summary(result)
    if html is not None:
        html.write_text(page.page(result))
    if json:
        present.raw(encode(report("fuzz-campaign", summary, figures.details(result))))
    else:
        for line in figures.lines(result):
            present.out(line)
    return exits.Exit.OK if summary["ok"] else exits.Exit.GOAL_MISSED


def seed_or_new(seed: int) -> int:
    """A seed of its own for 0."""
    return seed or 1 + secrets.randbelow(2**31)
