"""PE-18: an approval is for one call, once. Each replay has a marker of its own; the approved call's is counted."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Self

from opensafe.client import Review
from opensafe.errors import OpenSafeError, RequestError
from opensafe.proof.escape.probe import Boundary, Run, Severity
from opensafe.proof.escape.trial import Trial

from .ground import Box, Ground

_WAIT_S: Final = 30


def call(name: str) -> dict[str, str]:
    """What a reviewer has to see: code that runs a program. Each run adds a line."""
    return {"command": f"python3 -c \"import os; os.system('echo x >> /workspace/{name}')\""}


async def parked(box: Box, call_id: str, name: str) -> Review:
    """Send it; the review that it waits for. Raises OpenSafeError where it waits for none."""
    result = await box.run("Bash", call(name), call_id)
    if not result.verdict.review_id:
        raise OpenSafeError("the call that a reviewer has to see was not parked", value=result.verdict.action)
    return await box.post.clients["reviewer"].get_review(result.verdict.review_id)


async def approve(box: Box, review: Review, digest: str = "") -> None:
    """As the reviewer."""
    await box.post.clients["reviewer"].approve_review(review.review_id, digest or review.digest)


async def lines(box: Box, name: str) -> int:
    """How often the call with that marker ran."""
    return (await box.text(f"/workspace/{name}")).count("x")


async def _refused(replay: Awaitable[object]) -> str:
    """The reason where the daemon says no."""
    try:
        await replay
    except RequestError as error:
        return f"refused: {error.reason}"
    return ""


class _Approved:
    """A call that was parked, approved and run once, and what can be tried with it: each says what ran, "" for none."""

    def __init__(self, box: Box, call_id: str, name: str, review: Review) -> None:
        self._box = box
        self._call_id = call_id
        self._name = name
        self._review = review

    @classmethod
    async def make(cls, box: Box) -> Self:
        """Raises OpenSafeError where it does not run once."""
        name = box.name()
        made = cls(box, f"first-{name}", name, await parked(box, f"first-{name}", name))
        await approve(box, made._review)
        async for _ in box.client.attach(box.session, made._call_id):
            pass
        if await made._lines() != 1:
            raise OpenSafeError("the approved call did not run once")
        return made

    async def changed(self) -> str:
        """Other arguments that begin alike."""
        other = self._box.name()
        await self._box.run("Bash", call(other))
        return "changed arguments ran" if await self._lines(other) else ""

    async def same_id(self) -> str:
        """Other arguments under the id that was approved."""
        other = self._box.name()
        await _refused(self._box.run("Bash", call(other), self._call_id))
        return "changed arguments ran under the approved id" if await self._lines(other) else ""

    async def again(self) -> str:
        """The same arguments under a new id."""
        await self._box.run("Bash", call(self._name))
        return "the approved call ran again under a new id" if await self._lines() > 1 else ""

    async def repeated(self) -> str:
        """The very same call: it is attached to, and does not run."""
        await self._box.run("Bash", call(self._name), self._call_id)
        return "the approved call ran twice" if await self._lines() > 1 else ""

    async def twice(self) -> str:
        """The same approval given again."""
        said = await _refused(approve(self._box, self._review))
        return "" if said and await self._lines() == 1 else "an approval was taken twice"

    async def other_session(self) -> str:
        """The same id and arguments in another session of the same principal."""
        async with self._box.post.box("PE-18 other") as other:
            await other.run("Bash", call(self._name), self._call_id)
            return "it ran in another session" if await lines(other, self._name) else ""

    async def other_principal(self) -> str:
        """The same of another principal."""
        async with self._box.post.box("PE-18 other", "other") as other:
            await other.run("Bash", call(self._name), self._call_id)
            return "it ran for another principal" if await lines(other, self._name) else ""

    async def other_digest(self) -> str:
        """The approval of another call given to this one."""
        other = self._box.name()
        review = await parked(self._box, f"digest-{other}", other)
        said = await _refused(approve(self._box, review, self._review.digest))
        return "" if said and not await self._lines(other) else "approved by the digest of another call"

    async def by_itself(self) -> str:
        """Who asks approves."""
        other = self._box.name()
        review = await parked(self._box, f"own-{other}", other)
        said = await _refused(self._box.client.approve_review(review.review_id, review.digest))
        return "" if said and not await self._lines(other) else "approved by who asked"

    async def _lines(self, name: str = "") -> int:
        return await lines(self._box, name or self._name)


Replay = Callable[[_Approved], Awaitable[str]]
_REPLAYS: Final[tuple[Replay, ...]] = (
    _Approved.changed, _Approved.same_id, _Approved.again, _Approved.repeated, _Approved.twice,
    _Approved.other_session, _Approved.other_principal, _Approved.other_digest, _Approved.by_itself,
)  # fmt: skip
#: Those that an approval kept by the beginning of a command lets through.
_BY_PREFIX: Final[tuple[Replay, ...]] = (
    _Approved.changed, _Approved.again, _Approved.other_session, _Approved.other_principal,
)  # fmt: skip


async def _run(replays: tuple[Replay, ...], daemon: str, ground: Ground) -> list[str]:
    async with (await ground.post(daemon)).box("PE-18") as box:
        approved = await _Approved.make(box)
        return [found for replay in replays if (found := await replay(approved))]


async def _attempt(ground: Ground) -> Run:
    return Run(
        began=True,
        finished=True,
        found="; ".join(await _run(_REPLAYS, "", ground)),
        layer="approval bound to call, session and digest",
        hints=(f"{len(_REPLAYS)} replays of a call that was approved and ran once",),
    )


async def _late(ground: Ground) -> Run:
    """Approved when its time is over, as the daemon itself records it."""
    post = await ground.post("faulty")
    async with post.box("PE-18") as box:
        name = box.name()
        review = await parked(box, f"late-{name}", name)
        async with asyncio.timeout(_WAIT_S):
            async for seen in post.clients["reviewer"].watch_reviews():
                if seen.review_id == review.review_id and seen.state == "expired":
                    break
        said = await _refused(approve(box, review))
        ran = await lines(box, name)
    return Run(
        began=True,
        finished=True,
        found="" if said and not ran else "it was approved after it had expired",
        layer=f"an approval that comes too late is {said}",
    )


async def _control(ground: Ground) -> Run:
    found = await _run(_BY_PREFIX, "trusting", ground)
    whole = len(found) == len(_BY_PREFIX)
    return Run(began=True, finished=whole, found="; ".join(found) if whole else "", hints=tuple(found))


REPLAYED: Final = Trial(
    id="PE-18",
    boundary=Boundary.POLICY,
    title="an approval used for another call, session or principal, again, or too late",
    severity=Severity.INTEGRITY,
    attacks=("T1550",),
    breach="a marker has more lines than were approved",
    control="mutant: what was approved once is approved for all that begins alike",
    attempts=(_attempt, _late),
    weak=_control,
)
