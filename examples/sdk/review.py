"""A call that waits for a person, who is told where to look. Run it with `python examples/sdk/review.py`."""

import math

from opensafe.client import Denied, ReviewPending, Sandbox


def tell(parked: ReviewPending) -> None:
    """Say what waits. It could be a message to whoever is on duty."""
    print(f"waiting: opensafe review show {parked.review_id}", flush=True)


with Sandbox.create("review", on_review=tell, wait_review=math.inf) as box:
    try:
        print(box.bash("$(echo echo) approved").stdout, end="")
    except Denied as no:
        print(f"{no.outcome}: {no}")
