"""The screens: each file gives its routes, and draws templates of its own name."""

from starlette.routing import Route

from . import audit, call, compare, live, policies, proof, reviews, session, sign_in


def routes() -> list[Route]:
    """All of them."""
    screens = (sign_in, live, session, call, reviews, policies, proof, compare, audit)
    return [route for screen in screens for route in screen.routes()]
