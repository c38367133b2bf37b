"""The screens: each file gives its routes, and draws templates of its own name."""

from starlette.routing import Route

from . import audit, live, policies, proof, reviews, sign_in


def routes() -> list[Route]:
    """All of them."""
    return [
        *sign_in.routes(),
        *live.routes(),
        *reviews.routes(),
        *policies.routes(),
        *proof.routes(),
        *audit.routes(),
    ]
