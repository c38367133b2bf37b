"""The screen Reviews: what waits for a person, one parked call in full, and the decision on it.

A form carries what the page showed: the digest, and what else may change meanwhile. The daemon holds the digest against
the call; where anything else is other than it was shown, the person is asked to look again.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from opensafe.client import Review, Verdict
from opensafe.console.app import feed, form, lasts, number, of, person, signed_in
from opensafe.console.board import about
from opensafe.console.feed import Feed
from opensafe.console.notices import Notice
from opensafe.console.reviewing import case, differs, marks, standing
from opensafe.console.roles import REVIEWER, may
from opensafe.console.stream import events
from opensafe.errors import Conflict, NotPermitted
from opensafe.model.decision import Action

#: Reviews that wait, of decided ones on a page; characters of a reason, of which the daemon takes as many.
SHOWN: Final = 100
REASON_MAX: Final = 1000


def routes() -> list[Route]:
    """GET /reviews and /reviews/ID with their streams, the call as JSON, POST of a decision."""
    return [
        Route("/reviews", signed_in(queue), methods=["GET"]),
        Route("/reviews/events", signed_in(follow_queue), methods=["GET"]),
        Route("/reviews/{id}", signed_in(one), methods=["GET"]),
        Route("/reviews/{id}/events", signed_in(follow_one), methods=["GET"]),
        Route("/reviews/{id}/call.json", signed_in(call), methods=["GET"]),
        Route("/reviews/{id}/approve", signed_in(approve), methods=["POST"]),
        Route("/reviews/{id}/reject", signed_in(reject), methods=["POST"]),
    ]


async def queue(request: Request) -> Response:
    """What waits, the oldest first; `all`: everything, the newest first, `page` from 1."""
    source = feed(request)
    notice = of(request).notices.take(person(request).id)
    if request.query_params.get("all"):
        return await _everything(request, source)
    values = _waiting(source, notice.about if notice else "")
    return of(request).pages.answer(request, "reviews.html", notice=notice, **values)


async def follow_queue(request: Request) -> Response:
    """What waits, as it changes."""
    pages, language, source = of(request).pages, request.state.language, feed(request)

    def regions() -> Mapping[str, str]:
        return {"queue": pages.draw("reviews/queue.html", language, _waiting(source, ""))}

    return events(source, regions, lasts(request))


async def one(request: Request) -> Response:
    """One parked call, in full."""
    source = feed(request)
    review = await source.client.get_review(request.path_params["id"])
    notice = of(request).notices.take(person(request).id)
    values = _standing(request, review)
    return of(request).pages.answer(request, "review.html", case=await case(source, review), notice=notice, **values)


async def follow_one(request: Request) -> Response:
    """How it stands, and what can be decided."""
    pages, language, source = of(request).pages, request.state.language, feed(request)
    name = request.path_params["id"]
    await source.refresh(name)

    def regions() -> Mapping[str, str]:
        review = source.heard.get(name)
        if review is None:  # the daemon was away, and what came of this one is not told again
            return {"standing": pages.draw("reviews/unknown.html", language, {}), "decide": ""}
        values = _standing(request, review)
        return {part: pages.draw(f"reviews/{part}.html", language, values) for part in ("standing", "decide")}

    return events(source, regions, lasts(request))


async def call(request: Request) -> Response:
    """The sealed arguments, byte for byte as JSON says them; a file, never a page."""
    review = await feed(request).client.get_review(request.path_params["id"])
    headers = {"Content-Disposition": 'attachment; filename="call.json"'}
    return Response(msgspec.json.encode(review.arguments), media_type="application/json", headers=headers)


async def approve(request: Request) -> Response:
    """Let exactly the call that was shown run once."""
    fields = await form(request)
    source, name = feed(request), request.path_params["id"]
    shown = await source.client.get_review(name)
    if standing(shown) == "pending" and differs(
        shown, fields.get("digest", ""), fields.get("changes", ""), fields.get("taints", "")
    ):
        return _told(request, f"/reviews/{name}", Notice(key="reviews.told_other", tone="odd", about=name))
    verdict: Verdict | None = None
    try:
        verdict = await source.client.approve_review(name, fields.get("digest", ""))
    except (Conflict, NotPermitted) as error:
        return await _too_late(request, name, error)
    await source.refresh(name)
    if verdict is None:
        notice = Notice(key="reviews.told_seconded", tone="odd", about=name)
    elif verdict.action is Action.ALLOW:
        notice = Notice(key="reviews.told_approved", tone="good", about=name)
    else:
        notice = Notice(key="reviews.told_policy", tone="bad", about=name, rules=verdict.deciding())
    return _told(request, "/reviews", notice)


async def reject(request: Request) -> Response:
    """Refuse it; the reason reaches the agent."""
    fields = await form(request)
    source, name = feed(request), request.path_params["id"]
    reason = fields.get("reason", "").strip()[:REASON_MAX]
    if not reason:
        return _told(request, f"/reviews/{name}", Notice(key="reviews.told_no_reason", tone="odd", about=name))
    try:
        await source.client.reject_review(name, reason)
    except (Conflict, NotPermitted) as error:
        return await _too_late(request, name, error)
    await source.refresh(name)
    return _told(request, "/reviews", Notice(key="reviews.told_rejected", tone="good", about=name))


async def _too_late(request: Request, name: str, error: Exception) -> Response:
    """The page with how it stands now: who was first, or what else is in the way, in the daemon's words."""
    source = feed(request)
    review = await source.refresh(name)
    by = review.decided_by
    if by and by != person(request).principal:
        notice = Notice(key="reviews.told_late", tone="odd", about=name, values={"by": by}, said=str(error))
    else:
        notice = Notice(key="reviews.told_refused", tone="bad", about=name, said=str(error))
    return _told(request, f"/reviews/{name}", notice)


def _told(request: Request, where: str, notice: Notice) -> Response:
    of(request).notices.leave(person(request).id, notice)
    return RedirectResponse(where, 303)


def _waiting(source: Feed, after: str) -> dict[str, Any]:
    """after: the one that was decided just now; the next after it is to have the focus."""
    found = sorted(source.reviews.values(), key=lambda one: one.created_unix_ns) if source.reviews is not None else []
    decided = source.heard.get(after)
    since = decided.created_unix_ns if decided else 0
    following = next((one.review_id for one in found if one.created_unix_ns > since), "")
    return {
        "feed": source,
        "may": source.reviews is not None,
        "waiting": found[:SHOWN],
        "more": max(0, len(found) - SHOWN),
        "focus": (following or (found[0].review_id if found else "")) if after else "",
        "about": _about,
    }


def _about(review: Review) -> str | None:
    """None where a list leaves the arguments out because they are large."""
    return None if review.arguments is None else about(review.arguments)


async def _everything(request: Request, source: Feed) -> Response:
    """The last page of what there ever was comes last."""
    page = max(1, number(request.query_params.get("page", "")))
    found = sorted(await source.client.list_reviews(all=True), key=lambda one: -one.created_unix_ns)
    begin = (page - 1) * SHOWN
    return of(request).pages.answer(
        request,
        "reviews/all.html",
        may=source.reviews is not None,
        found=found[begin : begin + SHOWN],
        page=page,
        last=begin + SHOWN >= len(found),
        about=_about,
        standing=standing,
    )


def _standing(request: Request, review: Review) -> dict[str, Any]:
    """What the regions of one review draw by."""
    who = person(request)
    status = feed(request).status
    return {
        "review": review,
        "standing": standing(review),
        "marks": marks(review),
        "own": review.principal == who.principal,
        "mine": review.seconded_by == who.principal,
        "may": may(status, REVIEWER),
        "person": who,
        "reason_max": REASON_MAX,
    }
