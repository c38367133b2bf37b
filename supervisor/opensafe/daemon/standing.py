"""How the front stands at the moment of a scrape: read from where it is kept, so that no number is kept twice."""

import asyncio
from typing import Final

from opensafe import __version__
from opensafe.audit.log import AuditLog
from opensafe.config import Caps
from opensafe.control.activation import ACTIVATED, REFUSED, Activations
from opensafe.control.judge import Judge
from opensafe.errors import OpenSafeError
from opensafe.gate import Gate
from opensafe.model.ids import now_us
from opensafe.state.store import Store
from opensafe.telemetry.meters import Meters
from opensafe.telemetry.metrics import Pool, Root, Standing, exposition
from opensafe.telemetry.spans import Tracing
from opensafe.warden.client import WardenClient
from opensafe.warden.protocol import PoolState, StatusReport

#: What the warden may take to answer.
_STATUS_S: Final = 3.0


class Gauges:
    """Reads the parts of a front."""

    def __init__(
        self,
        meters: Meters,
        judge: Judge,
        log: AuditLog,
        store: Store,
        gate: Gate,
        activations: Activations,
        tracing: Tracing,
        warden: WardenClient,
        caps: Caps,
    ) -> None:
        self._meters = meters
        self._judge = judge
        self._log = log
        self._store = store
        self._gate = gate
        self._activations = activations
        self._tracing = tracing
        self._warden = warden
        self._limits = {
            "calls": caps.running_calls,
            "reviews": caps.parked_reviews,
            "sandboxes": caps.sandboxes,
        }

    async def text(self) -> bytes:
        """All metrics as Prometheus reads them."""
        return await exposition(self._meters, await self._standing())

    async def _standing(self) -> Standing:
        root = await self._root()
        bundle, (reviews, oldest_us) = self._store.bundle(ACTIVATED), self._store.review_queue()
        return Standing(
            version=__version__,
            revision=self._judge.bundle.revision,
            bundle_number=bundle.number if bundle is not None else 0,
            bundle_us=bundle.time_us if bundle is not None else 0,
            bundle_in_force=self._activations.last.state != REFUSED,
            reviews=reviews,
            oldest_review_s=max(0, now_us() - oldest_us) / 1e6 if reviews else 0,
            sandboxes=self._store.sandboxes.by_state(),
            calls=len(self._gate.live.running()),
            limits=self._limits,
            audit_records=self._log.head.size,
            audit_failed=self._log.failure is not None,
            spans_dropped=self._tracing.dropped,
            root=root,
        )

    async def _root(self) -> Root | None:
        try:
            async with asyncio.timeout(_STATUS_S):
                return _told(await self._warden.status())
        except (OpenSafeError, TimeoutError):
            return None


def _told(report: StatusReport) -> Root:
    return Root(
        sandboxes=report.sandboxes,
        programs=report.programs,
        ledger_records=report.ledger_size,
        append_only=report.append_only,
        checkpoint_records=report.checkpoint_size,
        checkpoint_us=report.checkpoint_us,
        checkpoint_failed=bool(report.checkpoint_failure),
        reports=report.monitor.reports,
        executions=report.monitor.executions,
        refused=report.monitor.refused,
        pool=_pools(report.pool),
    )


def _pools(states: tuple[PoolState, ...]) -> tuple[Pool, ...]:
    """Entries of one principal and template may differ in their limits, which are no labels."""
    sums: dict[tuple[str, str], Pool] = {}
    for state in states:
        key = state.principal, state.template
        had = sums.get(key, Pool(*key))
        sums[key] = Pool(*key, had.wanted + state.wanted, had.ready + state.ready, had.failures + state.failures)
    return tuple(sums.values())
