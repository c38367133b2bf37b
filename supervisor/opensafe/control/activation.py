"""Puts bundles in force: the front's lead over both engines, and the record of what holds (ADR 0018).

    offer ─► prepare, here and in the helper ─► helper swaps ─► swap here ─► canary ─► record, status
                 └─ either refuses                                              └─ fails: both go back
                        └───────────────► record, alarm; the last good bundle stays in force

One candidate at a time, and each ends within five seconds: activated or refused, with the reason.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import msgspec
import structlog

from opensafe.audit.log import AuditLog
from opensafe.errors import AuditError, BundleRefused, OpenSafeError, Unavailable
from opensafe.model.ids import now_us
from opensafe.model.records import Bundle, BundleRecord
from opensafe.policy.reload import Loaded, Loader
from opensafe.state.rows import BundleRow
from opensafe.state.store import Store
from opensafe.warden.client import WardenClient
from opensafe.warden.protocol import Offer

from .judge import Judge

ACTIVATED: Final = "activated"
REFUSED: Final = "refused"
REMOVED: Final = "removed"
DEADLINE_S: Final = 4.8

_log = structlog.get_logger()


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """How an offer ended. sequence: grows with each; took_ms: from the offer. Of a refusal: the last good stays."""

    sequence: int
    state: str
    digest: str
    number: int = 0
    revision: str = ""
    reason: str = ""
    took_ms: int = 0


class Activations:
    """Owns the engine in force. `begin` at the start, `watch` as a task, `close` at the end."""

    def __init__(self, loader: Loader, log: AuditLog, store: Store, warden: WardenClient, path: str) -> None:
        """`path`: where bundles are put, to be told to who asks."""
        self.path = path
        self.trusted_keys = loader.key_ids
        self._loader = loader
        self._log = log
        self._store = store
        self._warden = warden
        self._judge: Judge
        self._loaded: Loaded
        self._offer = 0
        self._last = Settled(sequence=0, state=ACTIVATED, digest="")
        self._settled = asyncio.Condition()
        self._optimising: asyncio.Task[None] | None = None
        #: Told after each offer whether what is in place is in force.
        self.on_settled: Callable[[bool], Awaitable[None]] | None = None

    @property
    def loaded(self) -> Loaded:
        """What is in force."""
        return self._loaded

    @property
    def last(self) -> Settled:
        """The last offer's end."""
        return self._last

    def last_refusal(self) -> BundleRow | None:
        """The bundle refused last, ever."""
        return self._store.bundle(REFUSED)

    async def begin(self) -> Loaded:
        """The bundle to start with: the one in place, or the last good one where that is refused.

        Raises BundleRefused where neither will do: without policy there is no daemon.
        """
        offer = await self._warden.await_bundle(0)
        self._offer = offer.number
        for digest in offer.removed:
            await self._log.append(
                BundleRecord(time_us=now_us(), state=REMOVED, digest=digest, reason="no record was judged by it")
            )
        good = self._store.bundle(ACTIVATED)
        try:
            self._loaded = await self._load(offer)
        except OpenSafeError as error:
            if good is None or good.digest == offer.digest:
                raise
            await self._refuse(offer, str(error), 0)
            self._loaded = await self._loader.load(good.digest)
        else:
            await self._activated(self._loaded, good.revision if good else "", 0)
        return self._loaded

    def lead(self, judge: Judge) -> None:
        """From here on `judge` is led; it judges by what `begin` returned."""
        self._judge = judge

    async def watch(self) -> None:
        """Bring the helper up to date, then settle one offer after the other; runs until cancelled."""
        await self._bring_helper()
        self._optimise()
        while True:
            offer = await self._warden.await_bundle(self._offer)
            self._offer = offer.number
            try:
                await self._settle(offer)
            except AuditError as error:  # nothing executes any more; whoever asks is told why
                _log.error("the end of an activation is not on record", error=str(error))

    async def settled(self) -> AsyncIterator[Settled]:
        """The last offer's end now, and each further one."""
        while True:
            seen = self._last
            yield seen
            async with self._settled:
                while self._last is seen:
                    await self._settled.wait()

    async def close(self) -> None:
        """Free the engine in force."""
        await self._stop_optimising()
        self._loaded.engine.close()

    async def _settle(self, offer: Offer) -> None:
        begun = now_us()
        await self._stop_optimising()
        try:
            async with asyncio.timeout(DEADLINE_S):
                if offer.digest == self._loaded.bundle.digest:
                    await self._tell(self._end(ACTIVATED, self._loaded, begun), good=True)
                    return
                before = self._loaded
                await self._activate(offer)
        except TimeoutError:
            await self._refuse(offer, f"it was not in force within {DEADLINE_S} s", begun)
            await self._bring_helper()
        except OpenSafeError as error:
            await self._refuse(offer, str(error), begun)
            await self._bring_helper()
        else:
            before.engine.close()
            await self._activated(self._loaded, before.bundle.revision, begun)
        self._optimise()

    async def _activate(self, offer: Offer) -> None:
        """Both engines, then the canary. Whatever raises leaves the old bundle in force in both."""
        _require_content(offer)
        loading = asyncio.create_task(self._load(offer))
        asking = asyncio.create_task(self._ask_helper(offer.digest, swap=False))
        try:
            new, _ = await asyncio.gather(loading, asking)
        except BaseException:
            await self._give_up(loading, asking)
            raise
        old, revision = self._loaded, new.bundle.revision
        try:
            if self._judge.in_force(revision):
                raise BundleRefused("canary: the old engine answers to the new revision", value=revision)
            await self._ask_helper(offer.digest, swap=True)
            self._enforce(new)
            if not self._judge.in_force(revision):
                self._enforce(old)
                raise BundleRefused("canary: the new revision did not answer", value=revision)
        except BaseException:
            new.engine.close()
            raise

    async def _load(self, offer: Offer) -> Loaded:
        _require_content(offer)
        loaded = await self._loader.load(offer.digest)
        number, good = loaded.bundle.number, self._store.bundle(ACTIVATED)
        if good is not None and good.digest != offer.digest and number <= good.number:
            loaded.engine.close()
            raise BundleRefused(
                "revision: its number is not higher than that of the last one in force",
                value=number,
                limit=f"above {good.number}",
                remedy="To go back to old content, sign it anew: opensafe policy sign BUNDLE --key FILE --number N.",
            )
        return loaded

    @staticmethod
    async def _give_up(loading: "asyncio.Task[Loaded]", asking: "asyncio.Task[None]") -> None:
        asking.cancel()
        loading.cancel()
        loaded, _ = await asyncio.gather(loading, asking, return_exceptions=True)
        if isinstance(loaded, Loaded):
            loaded.engine.close()

    def _enforce(self, loaded: Loaded) -> None:
        bundle = loaded.bundle
        self._judge.enforce(loaded.engine, Bundle(revision=bundle.revision, digest=bundle.digest))
        self._loaded = loaded

    async def _ask_helper(self, digest: str, *, swap: bool) -> None:
        await self._warden.ask_helper(digest, swap=swap)

    async def _bring_helper(self) -> None:
        """The helper serves by the bundle in force, or an alarm says that it does not. The warden keeps at it."""
        try:
            await self._ask_helper(self._loaded.bundle.digest, swap=True)
        except (BundleRefused, Unavailable) as error:
            _log.error("the egress helper does not follow", error=str(error))

    async def _activated(self, loaded: Loaded, previous: str, begun: int) -> None:
        bundle, good = loaded.bundle, self._store.bundle(ACTIVATED)
        if good is None or good.digest != bundle.digest:
            await self._log.append(
                BundleRecord(
                    time_us=now_us(),
                    state=ACTIVATED,
                    digest=bundle.digest,
                    number=bundle.number,
                    revision=bundle.revision,
                    key=bundle.key,
                    previous=previous,
                )
            )
        settled = self._end(ACTIVATED, loaded, begun)
        _log.info("bundle activated", revision=bundle.revision, took_ms=settled.took_ms, quick=loaded.quick)
        await self._tell(settled, good=True)

    async def _refuse(self, offer: Offer, reason: str, begun: int) -> None:
        _log.error("bundle refused, the last good one stays in force", digest=offer.digest, reason=reason)
        await self._log.append(BundleRecord(time_us=now_us(), state=REFUSED, digest=offer.digest, reason=reason[:2000]))
        took_ms = (now_us() - begun) // 1000 if begun else 0
        sequence = self._last.sequence + 1
        refused = Settled(sequence=sequence, state=REFUSED, digest=offer.digest, reason=reason, took_ms=took_ms)
        await self._tell(refused, good=False)

    def _end(self, state: str, loaded: Loaded, begun: int) -> Settled:
        return Settled(
            sequence=self._last.sequence + 1,
            state=state,
            digest=loaded.bundle.digest,
            number=loaded.bundle.number,
            revision=loaded.bundle.revision,
            took_ms=(now_us() - begun) // 1000 if begun else 0,
        )

    async def _tell(self, settled: Settled, *, good: bool) -> None:
        async with self._settled:
            self._last = settled
            self._settled.notify_all()
        if self.on_settled is not None:
            await self.on_settled(good)

    def _optimise(self) -> None:
        if self._loaded.quick:
            self._optimising = asyncio.create_task(self._exchange(self._loaded), name="optimise")

    async def _exchange(self, quick: Loaded) -> None:
        """The optimised engine of the same bundle, when it is made; the quick one serves on where it can't be."""
        try:
            loaded = await self._loader.load(quick.bundle.digest, optimise=True)
        except OpenSafeError as error:
            _log.warning("the optimised module can't be made", error=str(error))
            return
        self._enforce(loaded)
        quick.engine.close()

    async def _stop_optimising(self) -> None:
        if self._optimising is not None:
            self._optimising.cancel()
            await asyncio.gather(self._optimising, return_exceptions=True)
            self._optimising = None


def _require_content(offer: Offer) -> None:
    if offer.refused:
        raise BundleRefused(offer.refused, remedy="Build one with `make bundle`, or set paths.bundle.")
