"""No number is taken for unlimited: each has bounds on both sides (R34)."""

import msgspec
import pytest

from opensafe.config import Caps
from opensafe.model.limits import CallLimits, SandboxLimits

EXTREMES = (0, -1, 2**53, 2**63, 2**64, -(2**63))


@pytest.mark.parametrize("value", EXTREMES)
@pytest.mark.parametrize(
    ("kind", "field"),
    [(kind, field.name) for kind in (SandboxLimits, CallLimits, Caps) for field in msgspec.structs.fields(kind)],
)
def test_r34_an_extreme_is_refused(kind, field, value):
    if kind is Caps and field.startswith("retained_output") and value == 0:
        pytest.skip("0 keeps none")
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({field: value}, kind)


@pytest.mark.parametrize("kind", [SandboxLimits, CallLimits, Caps])
def test_the_defaults_lie_within(kind):
    assert msgspec.convert(msgspec.to_builtins(kind()), kind) == kind()
