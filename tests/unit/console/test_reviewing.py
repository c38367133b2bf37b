"""What a decision goes by: how a review stands, and whether it still is as a page showed it."""

import msgspec
import pytest

from opensafe.client import Review
from opensafe.console.notices import PEOPLE_MAX, Notice, Notices
from opensafe.console.reviewing import differs, marks, standing

REVIEW = Review(
    review_id="rev-1",
    state="pending",
    principal="agent",
    session_id="ses-1",
    sandbox_id="sb-1",
    call_id="c",
    tool="Bash",
    arguments={"command": "npm install"},
    digest="ab" * 32,
    rules=(),
    created_unix_ns=1_000,
    expires_unix_ns=2_000_000,
)


@pytest.mark.parametrize(
    ("state", "now_us", "stands"),
    [("pending", 1_999, "pending"), ("pending", 2_000, "expired"), ("approved", 9_999, "approved")],
)
def test_one_that_nobody_decided_on_in_time_is_expired(state, now_us, stands):
    assert standing(msgspec.structs.replace(REVIEW, state=state), now_us) == stands


def test_a_review_as_it_was_shown_is_no_other():
    assert not differs(REVIEW, **marks(REVIEW))


@pytest.mark.parametrize(
    "change",
    [{"digest": "cd" * 32}, {"workspace_changes": 1}, {"taints": ("secret.read",)}],
    ids=lambda change: next(iter(change)),
)
def test_whatever_changed_meanwhile_makes_it_another(change):
    assert differs(msgspec.structs.replace(REVIEW, **change), **marks(REVIEW))


def test_a_notice_is_told_once_and_to_its_person():
    notices = Notices()
    said = Notice(key="reviews.told_approved", tone="good")
    notices.leave("a", said)
    assert notices.take("b") is None
    assert notices.take("a") is said
    assert notices.take("a") is None


def test_only_so_many_notices_are_kept():
    notices = Notices()
    for number in range(PEOPLE_MAX + 1):
        notices.leave(str(number), Notice(key="reviews.told_approved", tone="good"))
    assert notices.take("0") is None
    assert notices.take("1") is not None
