"""Signing in by a link, signing out, and the language. A link is used up by the form's button, not by a look at it."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from opensafe.console.app import COOKIE, LANGUAGE, fields_of, form, of, set_cookie, signed_in
from opensafe.console.words import LANGUAGES


def routes() -> list[Route]:
    """GET and POST /sign-in, POST /sign-out, POST /language."""
    return [
        Route("/sign-in", ask, methods=["GET"]),
        Route("/sign-in", take, methods=["POST"]),
        Route("/sign-out", signed_in(leave), methods=["POST"]),
        Route("/language", choose, methods=["POST"]),
    ]


async def ask(request: Request) -> Response:
    """The page that a link leads to."""
    token = request.query_params.get("token", "")
    return of(request).pages.answer(request, "sign_in.html", token=token, refused=False)


async def take(request: Request) -> Response:
    """Use the link up."""
    token = (await fields_of(request)).get("token", "")
    accepted = of(request).doors.accept(token)
    if accepted is None:
        return of(request).pages.answer(request, "sign_in.html", status=403, token="", refused=True)
    answer = RedirectResponse("/", 303)
    set_cookie(of(request), answer, COOKIE, accepted[0])
    return answer


async def leave(request: Request) -> Response:
    """End the session."""
    await form(request)
    of(request).doors.end(request.cookies.get(COOKIE, ""))
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(COOKIE, path="/")
    return answer


async def choose(request: Request) -> Response:
    """Answer in another language from now on."""
    fields = await fields_of(request)
    back = fields.get("back", "/")
    answer = RedirectResponse(back if back.startswith("/") and not back.startswith(("//", "/\\")) else "/", 303)
    if fields.get("language") in LANGUAGES:
        set_cookie(of(request), answer, LANGUAGE, fields["language"])
    return answer
