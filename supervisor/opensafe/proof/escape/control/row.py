"""A row of this boundary."""

from functools import partial
from typing import Final

from opensafe.proof.escape.probe import Boundary
from opensafe.proof.escape.trial import Trial

row: Final = partial(Trial, boundary=Boundary.CONTROL)
"""Makes a trial of the control boundary, of all its other fields."""
