"""What an error means: tried again, told, or the end. Only what is declared safe is tried again."""

import pytest

from opensafe import errors
from opensafe.planner import Backoff
from opensafe.planner.faults import FATAL, TELL, ModelError, kind_of
from tests.unit.planner.support import run_state


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.Unavailable("gone"), "unavailable"),
        (errors.SandboxPaused("paused"), "unavailable"),
        (errors.LimitExceeded("many"), "crowded"),
        (errors.SandboxLost("memory"), "sandbox"),
        (errors.NotFound("no sandbox", value="sb-1"), "sandbox"),
        (errors.Conflict("being deleted", value="sb-1"), "sandbox"),
        (errors.NotFound("no such open session", value="ses-1"), FATAL),
        (errors.InvalidArgument("schema"), TELL),
        (errors.UnknownTool("none"), TELL),
        (errors.Conflict("the call_id was used for another request", value="run-1.1"), TELL),
        (errors.NotPermitted("it runs elsewhere"), TELL),
        (errors.AuditError("disk"), FATAL),
        (errors.EvaluationFailed("trap"), FATAL),
        (errors.WardenRefused("no"), FATAL),
        (errors.OpenSafeError("?"), FATAL),
        (ModelError("429", passing=True), "model"),
        (ModelError("401", passing=False), FATAL),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_an_error_means(error, kind):
    assert kind_of(error, run_state()) == kind


def test_pauses_double_up_to_the_most():
    backoff = Backoff(attempts=5, first_s=0.5, most_s=3)
    assert [backoff.pause(failures) for failures in (1, 2, 3, 4, 99)] == [0.5, 1, 2, 3, 3]
