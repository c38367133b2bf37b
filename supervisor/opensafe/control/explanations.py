"""Explains recorded decisions to those who may see them, with the catalogue of the bundle that decided."""

import asyncio
import pathlib
from typing import Final

from opensafe.audit.log import AuditLog
from opensafe.errors import NotFound
from opensafe.model.calls import Principal
from opensafe.model.explanation import Explanation
from opensafe.model.records import Bundle, DecisionRecord
from opensafe.policy.explain import Reference, explain, reference_in
from opensafe.policy.location import archived_path

AUDITOR: Final = "auditor"
_KEPT: Final = 4


class Explanations:
    """Keeps the catalogues of the last few bundles; all come from the archive in the state directory."""

    def __init__(self, log: AuditLog, state: pathlib.Path) -> None:
        self._log = log
        self._state = state
        self._references: dict[str, Reference] = {}

    async def explain(self, principal: Principal, wanted: str) -> tuple[DecisionRecord, Explanation]:
        """The latest decision with that id or call_id. Raises NotFound, BundleRefused (not in the archive)."""
        record = self._log.decision(wanted)
        if record is None or (record.principal != principal.name and AUDITOR not in principal.roles):
            raise NotFound(
                "no such decision among the last records",
                value=wanted,
                remedy="`opensafe policy explain --decision ID --state DIR` reads the whole log, as root.",
            )
        reference = await self._reference(record.bundles["opensafe"])
        return record, explain(reference, record.path.removeprefix("opensafe/"), record.input, record.result)

    async def _reference(self, bundle: Bundle) -> Reference:
        known = self._references.get(bundle.digest)
        if known is None:
            path = archived_path(self._state, bundle.digest)
            known = await asyncio.to_thread(reference_in, path, bundle.revision)
            self._references = {**dict(list(self._references.items())[1 - _KEPT :]), bundle.digest: known}
        return known
