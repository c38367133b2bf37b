"""Reviews of an evaluation: a principal whose role is to approve stands by, or a person is waited for, or neither."""

from collections.abc import Awaitable, Callable

from opensafe.client import Client, CreateOptions, ReviewPending, find_socket

from ._config import OpenSafeSandboxConfig

#: Seconds until what its reviewer approved has to go on.
_APPROVED_WITHIN_S = 60.0


def stand_by(options: CreateOptions, config: OpenSafeSandboxConfig) -> None:
    """Say in `options` what the session does where a call is parked. It never waits without an end."""
    if config.approves:
        options["on_review"] = _approver(config)
        options["wait_review"] = config.review_wait_s or _APPROVED_WITHIN_S
    elif config.review_wait_s > 0:
        options["wait_review"] = config.review_wait_s


def _approver(config: OpenSafeSandboxConfig) -> Callable[[ReviewPending], Awaitable[None]]:
    async def approve(parked: ReviewPending) -> None:
        """Raises NotPermitted where the principal is no reviewer, or is the one who asks."""
        socket = config.reviewer_socket or find_socket(config.reviewer)
        async with Client.connect(socket) as client:
            review = await client.get_review(parked.review_id)
            await client.approve_review(parked.review_id, review.digest)

    return approve
