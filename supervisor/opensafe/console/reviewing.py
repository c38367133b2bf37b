"""What somebody has to know who decides on a parked call, as far as their principal may see it."""

import time
from collections.abc import Sequence
from typing import Final

import msgspec

from opensafe.client import Review
from opensafe.errors import OpenSafeError
from opensafe.model.explanation import Explanation

from . import exact, likeness
from .board import Call, about
from .feed import Feed

LAST_CALLS: Final = 8


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A review with what is known around it.

    explanation: None for whoever may not read the decision. agent: the name that the client gave, "" if unknown.
    likest: the allowed call that is likest to it, with the words in which it differs. calls: the session's last, the
    newest first, without the one that waits.
    """

    review: Review
    about: str
    arguments: Sequence[exact.Argument]
    explanation: Explanation | None
    agent: str
    likest: Call | None
    pieces: Sequence[likeness.Piece]
    calls: Sequence[Call]

    @property
    def json(self) -> str:
        """The arguments as JSON; beginning and length where it is long."""
        return exact.as_json(self.review.arguments)[: exact.CHARACTERS_MAX]

    @property
    def left_out(self) -> int:
        """Characters of the call that the page does not show."""
        return sum(one.left_out for one in self.arguments)


async def case(feed: Feed, review: Review) -> Case:
    """Everything about a review that the daemon told whole."""
    arguments = review.arguments or {}
    subject = about(arguments)
    sessions = feed.board.sessions
    session = sessions.get(review.session_id)
    parked = next((call for call in session.calls if call.review_id == review.review_id), None) if session else None
    explanation = await _explained(feed, review, parked.decision_id if parked else review.call_id)
    likest = likeness.likest(review.tool, subject, review.session_id, review.call_id, reversed(sessions.values()))
    return Case(
        review=review,
        about=subject,
        arguments=exact.exact(arguments),
        explanation=explanation,
        agent=(explanation.question.session.agent if explanation else "") or (session.agent if session else ""),
        likest=likest,
        pieces=likeness.compare(likest.target, subject) if likest else (),
        calls=[call for call in reversed(session.calls) if call.call_id != review.call_id][:LAST_CALLS]
        if session
        else (),
    )


def standing(review: Review, now_us: int | None = None) -> str:
    """Its state; `expired` also where the daemon has not written that down yet."""
    now = now_us if now_us is not None else time.time_ns() // 1000
    return "expired" if review.state == "pending" and now * 1000 >= review.expires_unix_ns else review.state


def differs(shown: Review, digest: str, changes: str, taints: str) -> bool:
    """Whether a review is other than the page showed it that somebody decides by; see `marks`."""
    return (digest, changes, taints) != tuple(marks(shown).values())


def marks(review: Review) -> dict[str, str]:
    """What a form sends back of the page that it was on."""
    return {
        "digest": review.digest,
        "changes": str(review.workspace_changes),
        "taints": " ".join(review.taints),
    }


async def _explained(feed: Feed, review: Review, wanted: str) -> Explanation | None:
    """Clients choose call ids: what is found by one counts only where it is of this session and this very call."""
    try:
        found = await feed.client.explain(wanted)
    except OpenSafeError:
        return None
    same = (found.question.session.id, found.question.call.digest) == (review.session_id, review.digest)
    return found if same else None
