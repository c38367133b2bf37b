"""The harness sees what it has to: a planted fault of each kind, and none where there is none."""

import asyncio
import contextlib
import os
import select
import socket
from pathlib import Path

import pytest
import pytest_asyncio
import uvicorn
from playwright.async_api import Error
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tests.harness.browser import NARROW, ROOT, WIDE, axe, chromium, shot

POLICY = "default-src 'none'; require-trusted-types-for 'script'"
SHELL = "<!doctype html><html lang=en><title>A page</title><main><h1>A page</h1>{}</main></html>"
PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACw="
PAGES = {
    "plain": "<p>Nothing to see</p>",
    "unnamed": f'<img src="{PIXEL}">',
    "named": f'<img src="{PIXEL}" alt="A dot">',
    "inline": "<script>document.title = 'Changed'</script>",
    "broken": "<script>missing()</script>",
    "elsewhere": '<img src="http://example.com/x.png" alt="A picture">',
    "absent": '<img src="/nothing.png" alt="A picture">',
}
#: What a page needs that is to show one fault alone.
POLICIES = {
    "broken": "default-src 'none'; script-src 'unsafe-inline'",
    "elsewhere": "default-src 'none'; img-src *",
    "absent": "default-src 'none'; img-src 'self'",
    "unnamed": "default-src 'none'; img-src data:",
    "named": "default-src 'none'; img-src data:",
}


async def _page(request):
    name = request.path_params["name"]
    if name not in PAGES:
        return Response(status_code=404)
    return HTMLResponse(SHELL.format(PAGES[name]), headers={"Content-Security-Policy": POLICIES.get(name, POLICY)})


async def _icon(_request):
    """What a browser asks for by itself where no policy keeps it from that."""
    return Response(status_code=204)


async def _agreed(request):
    return HTMLResponse(SHELL.format(f"<p>{request.headers['accept-language']}</p>"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site():
    """The address of a server with the pages above."""
    routes = [Route("/favicon.ico", _icon), Route("/language", _agreed), Route("/{name:str}", _page)]
    app = Starlette(routes=routes)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        await serving


async def test_what_not_everybody_can_use_is_found(site, people):
    (found,) = await axe(await people.open(f"{site}/unnamed"))
    assert found.startswith("image-alt (critical): <img")


@pytest.mark.parametrize("name", ["named", "plain"])
async def test_a_page_that_all_can_use_passes_under_its_policy(site, people, name):
    assert await axe(await people.open(f"{site}/{name}")) == []
    assert people.faults == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("inline", "violates the following Content Security Policy directive"),
        ("broken", "uncaught: missing is not defined"),
        ("elsewhere", "net::ERR_NAME_NOT_RESOLVED [http://example.com/x.png]"),
        ("absent", "status of 404 (Not Found) [http://127.0.0.1:"),
    ],
)
async def test_what_a_page_may_not_do_is_a_fault(site, people, name, said):
    await people.open(f"{site}/{name}")
    (fault,) = await people.take()
    assert said in fault
    assert await people.take() == []


async def test_a_second_page_of_a_person_is_watched_as_well(site, people):
    first = await people.open(f"{site}/plain")
    second = await first.context.new_page()
    await second.goto(f"{site}/inline")
    assert len(await people.take()) == 1


async def test_a_page_that_crashes_is_a_fault(people):
    page = await people.open()
    async with page.expect_event("crash"):
        with contextlib.suppress(Error):  # nothing is loaded
            await page.goto("chrome://crash")
    assert await people.take() == ["crashed: about:blank"]


async def test_what_nobody_took_is_told_at_the_end(site, people):
    await people.open(f"{site}/broken")
    assert await people.leave() == ["uncaught: missing is not defined"]


async def test_people_share_no_cookie(site, people):
    one, other = await people.open(f"{site}/plain"), await people.open(f"{site}/plain")
    await one.context.add_cookies([{"name": "seat", "value": "1", "url": site}])
    assert (len(await one.context.cookies()), len(await other.context.cookies())) == (1, 0)


@pytest.mark.parametrize(("size", "dark", "locale"), [(WIDE, False, "en"), (NARROW, True, "ja"), (NARROW, False, "es")])
async def test_a_page_is_seen_as_its_reader_has_it(site, people, size, dark, locale):
    page = await people.open(f"{site}/language", size=size, dark=dark, locale=locale)
    assert (await page.text_content("p")).startswith(locale)
    assert await page.evaluate("[innerWidth, innerHeight, matchMedia('(prefers-color-scheme: dark)').matches]") == [
        *size,
        dark,
    ]


async def test_a_shot_has_the_size_of_what_is_seen(site, people):
    path = await shot(await people.open(f"{site}/plain", size=NARROW), "harness")
    assert path == ROOT / "build/console/harness.png"
    data = path.read_bytes()
    path.unlink()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert (int.from_bytes(data[16:20]), int.from_bytes(data[20:24])) == NARROW


def _descendants():
    """Processes below this one, as numbers with their commands."""
    parents, names = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name, _, rest = (entry / "stat").read_text().partition(" (")[2].rpartition(") ")
            parents[int(entry.name)], names[int(entry.name)] = int(rest.split()[1]), name
    below = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return {pid: names[pid] for pid in below - {os.getpid()}}


async def test_nothing_is_left_of_a_browser(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", os.fspath(tmp_path))
    before = _descendants()
    async with chromium() as browser:
        await browser.new_page()
        started = {pid: name for pid, name in _descendants().items() if pid not in before}
        alive = [os.pidfd_open(pid) for pid in started]
        assert "chromium" in started.values()
        assert list(tmp_path.iterdir())
    for pidfd in alive:
        assert select.select([pidfd], [], [], 30)[0]
        os.close(pidfd)
    assert list(tmp_path.iterdir()) == []
