"""A row of this boundary."""

from typing import Any

from opensafe.proof.escape.probe import Boundary
from opensafe.proof.escape.trial import Trial


def row(**fields: Any) -> Trial:  # noqa: ANN401 - a trial's own
    """A trial of the control boundary."""
    return Trial(boundary=Boundary.CONTROL, **fields)
