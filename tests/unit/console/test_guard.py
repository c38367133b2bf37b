"""What a request has to get past: known hosts, own pages, bounded bodies and rates; and what every answer carries."""

import httpx2 as httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from opensafe.console import guard
from opensafe.console.guard import BURST, FORM_MAX, SIGN_IN_BURST, Guard


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


async def echo(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await request.body())))


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def browser(clock):
    names = frozenset({"127.0.0.1:8900", "console.test"})
    app = Starlette(
        routes=[Route(path, echo, methods=["GET", "POST", "PUT"]) for path in ("/", "/sign-in", "/policies/candidate")],
        middleware=[Middleware(Guard, names=names, client=lambda _: "one", clock=clock)],
        exception_handlers={guard.TooLargeError: guard.too_large},
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1:8900") as client:
        yield client


async def test_every_answer_carries_the_headers_refusals_too(browser):
    for answer in (await browser.get("/"), await browser.get("/", headers={"host": "evil.test"})):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "host", ["evil.test", "127.0.0.1", "127.0.0.1:8901", "localhost:8900", "console.test.evil.test", ""]
)
async def test_a_host_that_is_not_this_consoles_is_not_served(browser, host):
    assert (await browser.get("/", headers={"host": host})).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8900", "console.test", "CONSOLE.test"])
async def test_its_own_hosts_are(browser, host):
    assert (await browser.get("/", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.test"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8901"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "same-origin", "origin": "http://evil.test"},
    ],
)
async def test_a_form_of_another_page_is_not_taken(browser, headers):
    assert (await browser.post("/", headers=headers)).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [{}, {"origin": "http://127.0.0.1:8900"}, {"origin": "https://console.test", "sec-fetch-site": "same-origin"}],
)
async def test_a_form_of_its_own_page_is(browser, headers):
    assert (await browser.post("/", headers=headers)).status_code == 200


async def test_a_path_and_its_query_have_a_limit(browser):
    assert (await browser.get("/?" + "x" * (guard.TARGET_MAX - 1))).status_code == 200
    assert (await browser.get("/?" + "x" * guard.TARGET_MAX)).status_code == 414
    assert (await browser.get("/" + "9" * 5000)).status_code == 414


async def test_other_methods_are_refused(browser):
    assert (await browser.put("/")).status_code == 405


@pytest.mark.parametrize(("path", "limit"), [("/", FORM_MAX), ("/policies/candidate", guard.BUNDLE_MAX)])
async def test_a_body_has_a_limit_with_and_without_a_declared_length(browser, path, limit):
    async def pieces(size):
        for at in range(0, size, 1 << 16):
            yield b"x" * min(1 << 16, size - at)

    assert (await browser.post(path, content=pieces(limit))).text == str(limit)
    refused = await browser.post(path, content=pieces(limit + 1))
    assert (refused.status_code, str(limit) in refused.text) == (413, True)
    assert (await browser.post(path, content=b"x" * (limit + 1))).status_code == 413


async def test_requests_have_a_rate(browser, clock):
    answers = [(await browser.get("/")).status_code for _ in range(int(BURST) + 5)]
    assert answers == [200] * int(BURST) + [429] * 5
    clock.now += 1
    assert (await browser.get("/")).status_code == 200


async def test_sign_ins_have_a_rate_of_their_own(browser, clock):
    answers = [(await browser.post("/sign-in")).status_code for _ in range(int(SIGN_IN_BURST) + 1)]
    assert answers == [200] * int(SIGN_IN_BURST) + [429]
    assert (await browser.get("/sign-in")).status_code == 200
    clock.now += 5
    assert (await browser.post("/sign-in")).status_code == 200
