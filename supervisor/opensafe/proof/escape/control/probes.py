"""All rows of the control boundary, in the order of the report."""

from typing import Final

from opensafe.proof.escape.trial import Trial

from . import bundles, calls, deaths, fields, itself, lag, messages, records, sandboxed, sockets, tenants

_BY_FAMILY: Final = (
    *(*sockets.TRIALS, *sandboxed.TRIALS, *tenants.TRIALS, *fields.TRIALS, *bundles.TRIALS),
    *(*records.TRIALS, *calls.TRIALS, *deaths.TRIALS, *messages.TRIALS, *itself.TRIALS, *lag.TRIALS),
)
PROBES: Final[tuple[Trial, ...]] = tuple(sorted(_BY_FAMILY, key=lambda trial: trial.id))
