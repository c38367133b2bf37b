"""Reviews of an evaluation: a principal whose role is to approve stands by, or a person is waited for, or neither."""

from collections.abc import Awaitable, Callable

from opensafe.client import Client, CreateOptions, find_socket
from opensafe.errors import Conflict, OpenSafeError, ReviewPending

from ._config import OpenSafeSandboxConfig

#: Seconds until what its reviewer approved has to go on.
_APPROVED_WITHIN_S = 60.0


class ReviewerFailedError(OpenSafeError):
    """The reviewer of the configuration is none, asks itself, or can't be reached: an error of the sample."""

    reason = "REVIEWER_FAILED"


def stand_by(options: CreateOptions, config: OpenSafeSandboxConfig) -> None:
    """Say in `options` what the session does where a call is parked. It never waits without an end."""
    if config.approves:
        options["on_review"] = _approver(config)
        options["wait_review"] = config.review_wait_s or _APPROVED_WITHIN_S
    elif config.review_wait_s > 0:
        options["wait_review"] = config.review_wait_s


def _approver(config: OpenSafeSandboxConfig) -> Callable[[ReviewPending], Awaitable[None]]:
    async def approve(parked: ReviewPending) -> None:
        socket = config.reviewer_socket or find_socket(config.reviewer)
        try:
            async with Client.connect(socket) as client:
                review = await client.get_review(parked.review_id)
                await client.approve_review(parked.review_id, review.digest)
        except Conflict:
            return  # somebody else decided; the call says how
        except OpenSafeError as error:
            raise ReviewerFailedError(
                f"the evaluation's reviewer can't approve: {error.message}", value=socket, remedy=error.remedy
            ) from error

    return approve
