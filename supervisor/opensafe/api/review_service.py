"""Parked calls: list, approve, reject, watch."""

from collections.abc import AsyncIterator
from typing import Any, Final

from opensafe._proto.v1 import review_pb2, review_pb2_grpc
from opensafe.control.reviews import Reviews
from opensafe.desk import Desk
from opensafe.model.calls import Principal
from opensafe.state.rows import ReviewRow

from . import convert

_LISTED_ARGUMENTS: Final = 8 * 1024


class ReviewService(review_pb2_grpc.ReviewServiceServicer):
    """See review.proto."""

    def __init__(self, desk: Desk, reviews: Reviews, principal: Principal) -> None:
        self._desk = desk
        self._reviews = reviews
        self._principal = principal

    async def ListReviews(  # noqa: N802 - the name of the RPC
        self,
        request: review_pb2.ListReviewsRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> review_pb2.ListReviewsResponse:
        """What waits, or everything."""
        rows = self._reviews.visible(self._principal, everything=request.all)
        return review_pb2.ListReviewsResponse(reviews=[self._listed(row) for row in rows])

    async def GetReview(  # noqa: N802 - the name of the RPC
        self,
        request: review_pb2.GetReviewRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> review_pb2.GetReviewResponse:
        """One parked call, whole."""
        row = self._reviews.find(self._principal, request.review_id)
        return review_pb2.GetReviewResponse(review=convert.review(self._reviews.view(row)))

    async def ApproveReview(  # noqa: N802 - the name of the RPC
        self,
        request: review_pb2.ApproveReviewRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> review_pb2.ApproveReviewResponse:
        """Let the call run once."""
        verdict = await self._desk.approve(self._principal, request.review_id, request.digest)
        if verdict is None:
            return review_pb2.ApproveReviewResponse(approvals_missing=1)
        return review_pb2.ApproveReviewResponse(decision=convert.decision(verdict))

    async def RejectReview(  # noqa: N802 - the name of the RPC
        self,
        request: review_pb2.RejectReviewRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> review_pb2.RejectReviewResponse:
        """End the call."""
        await self._desk.reject(self._principal, request.review_id, request.reason[:1000])
        return review_pb2.RejectReviewResponse()

    async def WatchReviews(  # noqa: N802 - the name of the RPC
        self,
        request: review_pb2.WatchReviewsRequest,  # noqa: ARG002 - it is empty
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> AsyncIterator[review_pb2.WatchReviewsResponse]:
        """What waits, then what changes."""
        async for row in self._reviews.watch(self._principal):
            yield review_pb2.WatchReviewsResponse(review=self._listed(row))

    def _listed(self, row: ReviewRow) -> review_pb2.Review:
        review = convert.review(self._reviews.view(row))
        if len(review.sealed_arguments_json) > _LISTED_ARGUMENTS:
            review.sealed_arguments_json = b""
        return review
