"""The screen Policies: what is in force, which rules fire, what a candidate would say, and putting one in force."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from opensafe.console.app import confirm, feed, form, lasts, number, of, person, signed_in
from opensafe.console.candidates import DECISIONS_MAX, LISTED
from opensafe.console.children import while_there
from opensafe.console.overview import Overview
from opensafe.console.readiness import readiness, signing
from opensafe.console.roles import ACTIVATING, SHADOWING, STAFF, may, require
from opensafe.console.stream import events
from opensafe.errors import InvalidArgument

REGIONS: Final = ("force", "shadow", "rules", "history")
#: How many decisions can be judged again.
CHOICES: Final = (1000, 3000, DECISIONS_MAX)
_HERE: Final = "/policies"
_CANDIDATE: Final = "/policies/candidate"


def routes() -> list[Route]:
    """The screen and its stream; the candidate, what may be done with it; shadow's end."""
    return [
        Route(_HERE, signed_in(show), methods=["GET"]),
        Route("/policies/events", signed_in(follow), methods=["GET"]),
        Route(_CANDIDATE, signed_in(show_candidate), methods=["GET"]),
        Route(_CANDIDATE, signed_in(take), methods=["POST"]),
        Route("/policies/candidate/activate", signed_in(activate), methods=["POST"]),
        Route("/policies/candidate/shadow", signed_in(begin_shadow), methods=["POST"]),
        Route("/policies/candidate/forget", signed_in(forget), methods=["POST"]),
        Route("/policies/shadow/stop", signed_in(end_shadow), methods=["POST"]),
    ]


async def show(request: Request) -> Response:
    """The whole screen."""
    overview = _overview(request)
    await overview.refresh()
    values = _values(request, overview)
    values |= {
        "candidate": of(request).candidates.get(person(request).id),
        "choices": CHOICES,
        "query": request.url.query,
    }
    return of(request).pages.answer(request, "policies.html", **values)


async def follow(request: Request) -> Response:
    """Its regions, as they change."""
    pages, language, overview = of(request).pages, request.state.language, _overview(request)
    values = {"person": person(request)}

    drawn: dict[str, str] = {}

    async def regions() -> Mapping[str, str]:
        if await overview.refresh():
            shown = values | _values(request, overview)
            drawn.update({name: pages.draw(f"policies/{name}.html", language, shown) for name in REGIONS})
        return drawn

    return events(feed(request), regions, lasts(request))


async def show_candidate(request: Request) -> Response:
    """What is known of the reader's candidate."""
    candidate = of(request).candidates.get(person(request).id)
    if candidate is None:
        return RedirectResponse(_HERE, 303)
    daemon = feed(request).status or await feed(request).client.status()
    return of(request).pages.answer(
        request,
        "candidate.html",
        candidate=candidate,
        ready=readiness(candidate, daemon) if candidate.replayed else None,
        listed=LISTED,
        daemon=daemon,
        may_shadow=may(daemon, SHADOWING),
        may_activate=may(daemon, ACTIVATING),
    )


async def take(request: Request) -> Response:
    """Keep a bundle that was uploaded, judged again on decisions of the record."""
    console, who, source = of(request), person(request), feed(request)
    await require(feed(request).client, STAFF)  # before anything is taken
    async with request.form(max_files=1, max_fields=8) as fields:
        confirm(request, str(fields.get("csrf", "")))
        bundle, last = fields.get("bundle"), str(fields.get("last", ""))
        if not isinstance(bundle, UploadFile) or not bundle.filename:
            raise InvalidArgument("no file was chosen", remedy="Choose a bundle.")
        if last not in map(str, CHOICES):
            raise InvalidArgument("not a number of decisions to judge again", value=last, limit=f"{CHOICES}")
        content = await bundle.read()
    work = console.candidates.replay(who.id, bundle.filename, content, source.client, int(last))
    if await while_there(request, work) is None:
        return Response(status_code=204)  # nobody reads it
    return RedirectResponse(_CANDIDATE, 303)


async def activate(request: Request) -> Response:
    """Put the candidate that was shown in force."""
    fields = await form(request)
    await require(feed(request).client, ACTIVATING)
    work = of(request).candidates.activate(person(request).id, fields.get("digest", ""), feed(request).socket)
    if await while_there(request, work) is not None:
        feed(request).status = await feed(request).client.status()
    return RedirectResponse(_CANDIDATE, 303)


async def begin_shadow(request: Request) -> Response:
    """Let the candidate that was shown judge along."""
    fields = await form(request)
    content = of(request).candidates.read(person(request).id, fields.get("digest", ""))
    await feed(request).client.start_shadow(content)
    return RedirectResponse(f"{_HERE}#shadow", 303)


async def end_shadow(request: Request) -> Response:
    """End it, and show what came of it."""
    await form(request)
    await feed(request).client.stop_shadow()
    return RedirectResponse(f"{_HERE}#shadow", 303)


async def forget(request: Request) -> Response:
    """Take the candidate away."""
    await form(request)
    of(request).candidates.forget(person(request).id)
    return RedirectResponse(_HERE, 303)


def _overview(request: Request) -> Overview:
    return Overview(feed(request), number(request.query_params.get("before", "")))


def _values(request: Request, overview: Overview) -> dict[str, Any]:
    """What the regions are drawn from."""
    rules = overview.rules()
    ways = {
        "fired": [rule for rule in rules if rule.hits],
        "never": [rule for rule in rules if not rule.hits],
        "all": rules,
    }
    wanted = request.query_params.get("rules", "")
    shown = wanted if wanted in ways else next(iter(ways))
    daemon = overview.status
    return {
        "lost": bool(feed(request).why_lost),
        "overview": overview,
        "daemon": daemon,
        "fired": feed(request).board.fired,
        "rules": ways[shown],
        "ways": {way: len(found) for way, found in ways.items()},
        "shown": shown,
        "may_try": may(daemon, STAFF),
        "may_shadow": may(daemon, SHADOWING),
        "may_activate": may(daemon, ACTIVATING),
        "back": signing("old.bundle.tar.gz", daemon.bundle_number + 1) if daemon else "",
    }
