"""Who gets to a handler: people who signed in, or whom a proxy names; and forms of their own pages alone."""

from pathlib import Path

import httpx2 as httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from opensafe.console.app import COOKIE, Console, build, form, person, signed_in
from opensafe.console.assets import Assets
from opensafe.console.candidates import Candidates
from opensafe.console.page import Pages
from opensafe.console.pages import sign_in
from opensafe.console.signing_in import Doorkeeper

NAMES = frozenset({"console.test"})


async def who(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{person(request).principal} {person(request).csrf}")


async def change(request: Request) -> PlainTextResponse:
    return PlainTextResponse((await form(request)).get("what", ""))


def browser(header=""):
    doors = Doorkeeper(frozenset({"alice", "bob"}), {"a@site.test": "alice"})
    assets = Assets()
    console = Console(
        doors=doors, feeds={}, pages=Pages(assets), candidates=Candidates(Path("/nowhere")), header=header
    )
    routes = [
        Route("/live/events", signed_in(who)),
        Route("/who", signed_in(who)),
        Route("/change", signed_in(change), methods=["POST"]),
    ]
    app = build(console, NAMES, [*routes, *sign_in.routes()], assets)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://console.test")
    return client, doors


@pytest.fixture
async def alice():
    client, doors = browser()
    async with client:
        answer = await client.post("/sign-in", data={"token": doors.link("alice")})
        assert answer.status_code == 303
        yield client


async def test_nobody_who_is_not_signed_in_gets_there():
    client, _ = browser()
    async with client:
        assert (await client.get("/who")).headers["location"] == "/sign-in"
        for cookie in ("", "x", "../../etc/passwd"):
            answer = await client.get("/who", headers={"cookie": f"{COOKIE}={cookie}"})
            assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
        part = await client.get("/who", headers={"hx-request": "true"})
        assert part.headers["hx-redirect"] == "/sign-in"


async def test_a_live_page_whose_session_is_over_is_told_so():
    client, _ = browser()
    async with client:
        answer = await client.get("/live/events")
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.text.startswith("event: ended\n")


async def test_who_signed_in_does_and_the_cookie_is_for_this_site_alone(alice):
    assert (await alice.get("/who")).text.startswith("alice ")
    client, doors = browser()
    async with client:
        answer = await client.post("/sign-in", data={"token": doors.link("bob")})
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie


async def test_a_header_that_a_proxy_would_send_means_nothing_where_there_is_none(alice):
    answer = await alice.get("/who", headers={"x-user": "bob"})
    assert answer.text.startswith("alice ")


async def test_a_form_needs_the_token_of_this_person(alice):
    token = (await alice.get("/who")).text.split()[1]
    assert (await alice.post("/change", data={"what": "ok", "csrf": token})).text == "ok"
    assert (await alice.post("/change", data={"what": "ok"}, headers={"x-csrf-token": token})).text == "ok"
    for wrong in ("", token[:-1], "é", token + "x"):
        assert (await alice.post("/change", data={"what": "no", "csrf": wrong})).status_code == 403


async def test_a_proxys_user_is_known_by_its_header_alone():
    client, _ = browser("X-User")
    async with client:
        assert (await client.get("/who", headers={"x-user": "a@site.test"})).text.startswith("alice ")
        token = (await client.get("/who", headers={"x-user": "bob"})).text.split()[1]
        sent = await client.post("/change", data={"what": "ok", "csrf": token}, headers={"x-user": "bob"})
        assert sent.text == "ok"
        other = await client.post("/change", data={"what": "no", "csrf": token}, headers={"x-user": "a@site.test"})
        assert other.status_code == 403


@pytest.mark.parametrize("users", [[], ["mallory"], [""], ["alice", "bob"], ["alice", "alice"], ["alice, bob"]])
async def test_a_user_that_is_nobodys_or_named_twice_is_refused(users):
    client, _ = browser("X-User")
    async with client:
        answer = await client.get("/who", headers=[("x-user", user) for user in users])
        assert answer.status_code == 403


async def test_after_the_language_is_chosen_nobody_is_sent_elsewhere():
    client, _ = browser()
    async with client:
        for back in ("//evil.test/", "/\\evil.test", "https://evil.test/", "javascript:x"):
            answer = await client.post("/language", data={"language": "ja", "back": back})
            assert answer.headers["location"] == "/"
        answer = await client.post("/language", data={"language": "ja", "back": "/audit?text=x"})
        assert answer.headers["location"] == "/audit?text=x"
        assert "set-cookie" not in (await client.post("/language", data={"language": "xx"})).headers


async def test_what_is_not_there_is_said_on_a_page_that_escapes_it(alice):
    answer = await alice.get("/<script>x</script>")
    assert answer.status_code == 404
    assert "<script>x" not in answer.text
    assert (await alice.get("/assets/0123456789abcdef/console.css")).status_code == 404
    assert (await alice.get("/assets/0123456789abcdef/../app.py")).status_code == 404
