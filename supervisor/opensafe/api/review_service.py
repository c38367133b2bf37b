"""Parked calls: list, approve, reject."""

from typing import Any, Final

from opensafe._proto.v1 import review_pb2, review_pb2_grpc
from opensafe.control.reviews import Reviews
from opensafe.gate import Gate
from opensafe.model.calls import Principal

from . import convert

_LISTED_ARGUMENTS: Final = 8 * 1024


class ReviewService(review_pb2_grpc.ReviewServiceServicer):
    """See review.proto."""

    def __init__(self, gate: Gate, reviews: Reviews, principal: Principal) -> None:
        self._gate = gate
        self._reviews = reviews
        self._principal = principal

    async def ListReviews(  # noqa: N802 - the name of the RPC
        self,
        request: review_pb2.ListReviewsRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> review_pb2.ListReviewsResponse:
        """What waits, or everything."""
        reviews = [convert.review(row) for row in self._reviews.visible(self._principal, everything=request.all)]
        for review in reviews:
            if len(review.sealed_arguments_json) > _LISTED_ARGUMENTS:
                review.sealed_arguments_json = b""
        return review_pb2.ListReviewsResponse(reviews=reviews)

    async def GetReview(  # noqa: N802 - the name of the RPC
        self,
        request: review_pb2.GetReviewRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> review_pb2.GetReviewResponse:
        """One parked call, whole."""
        row = self._reviews.find(self._principal, request.review_id)
        return review_pb2.GetReviewResponse(review=convert.review(row))

    async def ApproveReview(  # noqa: N802 - the name of the RPC
        self,
        request: review_pb2.ApproveReviewRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> review_pb2.ApproveReviewResponse:
        """Let the call run once."""
        verdict = await self._gate.approve(self._principal, request.review_id, request.digest)
        return review_pb2.ApproveReviewResponse(decision=convert.decision(verdict))

    async def RejectReview(  # noqa: N802 - the name of the RPC
        self,
        request: review_pb2.RejectReviewRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> review_pb2.RejectReviewResponse:
        """End the call."""
        await self._gate.reject(self._principal, request.review_id, request.reason[:1000])
        return review_pb2.RejectReviewResponse()
