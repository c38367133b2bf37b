"""What people decide: reviews of parked calls, and bans."""

from collections.abc import AsyncIterator

from opensafe._proto.v1 import agent_pb2, review_pb2

from . import _wire
from ._connection import Connection
from ._failures import stream
from ._types import Ban, BanEffect, Review, Verdict


class PeopleMethods(Connection):
    """Reviews and bans."""

    async def list_reviews(self, *, all: bool = False) -> tuple[Review, ...]:  # noqa: A002 - the request's field
        """Parked calls, oldest first as the daemon gives them; `all` adds the decided and expired ones."""
        answer = await self._ask(self._reviews.ListReviews(review_pb2.ListReviewsRequest(all=all)))
        return tuple(_wire.review(message) for message in answer.reviews)

    async def get_review(self, review_id: str) -> Review:
        """One parked call with its arguments, however large. Raises NotFound."""
        answer = await self._ask(self._reviews.GetReview(review_pb2.GetReviewRequest(review_id=review_id)))
        return _wire.review(answer.review)

    async def approve_review(self, review_id: str, digest: str) -> Verdict | None:
        """Let exactly the call of `digest` run once; the verdict is policy's second, with the approval as a fact.

        None: another reviewer must approve, too.
        """
        request = review_pb2.ApproveReviewRequest(review_id=review_id, digest=digest)
        answer = await self._ask(self._reviews.ApproveReview(request))
        return None if answer.approvals_missing else _wire.verdict(answer.decision)

    async def reject_review(self, review_id: str, reason: str) -> None:
        """Refuse a parked call. The reason reaches the agent."""
        await self._ask(self._reviews.RejectReview(review_pb2.RejectReviewRequest(review_id=review_id, reason=reason)))

    async def watch_reviews(self) -> AsyncIterator[Review]:
        """Each review that waits, then each one that is parked or decided on, as it is then. Ends with the daemon."""
        with stream(self._reviews.WatchReviews(review_pb2.WatchReviewsRequest()), self._path) as messages:
            async for message in messages:
                yield _wire.review(message.review)

    async def ban(self, principal: str, agent: str = "", reason: str = "") -> BanEffect:
        """Ban a principal, or its sessions that carry an agent's name; the reason reaches the agent.

        Needs the role operator or reviewer. Raises NotPermitted, NotFound, Conflict where it is banned already.
        """
        subject = agent_pb2.BanSubject(principal=principal, agent=agent)
        answer = await self._ask(self._agents.Ban(agent_pb2.BanRequest(subject=subject, reason=reason)))
        return BanEffect(ended_calls=answer.ended_calls, voided_reviews=answer.voided_reviews)

    async def unban(self, principal: str, agent: str = "") -> None:
        """Lift a ban. Raises NotPermitted, NotFound."""
        subject = agent_pb2.BanSubject(principal=principal, agent=agent)
        await self._ask(self._agents.Unban(agent_pb2.UnbanRequest(subject=subject)))

    async def list_bans(self) -> tuple[Ban, ...]:
        """Bans in force, oldest first."""
        answer = await self._ask(self._agents.ListBans(agent_pb2.ListBansRequest()))
        return tuple(_wire.ban(message) for message in answer.bans)
