"""`opensafe bench console`: how soon a person sees something, with a real browser on a real console and daemon.

- paint: from the start of a navigation to the first contentful paint of the live screen, by the browser's own clock;
  beside it the same of a page with one line of text, from a server of this process: what the browser takes anyway.
- screen: from the record's own time to the frame in which its call stands on the live screen; beside it the time until
  a client of the daemon has the record.
- busy: the same while records come at a rate, with what the page grows to and the longest that a frame took.
"""

import asyncio
import contextlib
import http.server
import os
import pathlib
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from opensafe.client import Client
from opensafe.errors import HostUnsuitable, Unavailable
from opensafe.model import records
from opensafe.model.records import DecisionRecord
from opensafe.proof.private import PrivateDaemon

from .timing import Times

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

CHROMIUM: Final = pathlib.Path("/usr/bin/chromium")
_ROLES: Final = {"agent": ("developer",), "reviewer": ("reviewer", "auditor", "operator")}
_FLAGS: Final = ("--disable-background-networking", "--disable-component-update", "--disable-gpu", "--disable-sync")
_PATIENCE_S: Final = 30.0
_CALLERS: Final = 4
_PAINT: Final = """() => new Promise((resolve) => {
  new PerformanceObserver((list) => {
    for (const entry of list.getEntriesByName("first-contentful-paint")) resolve(entry.startTime);
  }).observe({ type: "paint", buffered: true });
})"""
#: Notes of each call when it was first in a frame, and of frames how long each took.
_WATCH: Final = """() => {
  window.seen = {}; window.longest = 0;
  let last = performance.now();
  const frame = (now) => {
    window.longest = Math.max(window.longest, now - last);
    last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  new MutationObserver(() => requestAnimationFrame(() => {
    const now = performance.timeOrigin + performance.now();
    for (const row of document.querySelectorAll("#trace tr[id]")) window.seen[row.id] ??= now;
  })).observe(document.querySelector("#trace"), { childList: true, subtree: true });
}"""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Times as in the module's text. busy_nodes: elements of the page at the end; busy_longest_ms: of a frame.

    busy_unseen: calls that never were on the screen, because newer ones took their place within one state.
    """

    paint: Times
    bare_paint: Times
    screen: Times
    record: Times
    busy_screen: Times
    busy_per_min: float
    busy_unseen: int
    busy_nodes: int
    busy_longest_ms: float

    @property
    def paint_ratio(self) -> float:
        """Medians, to a page with a line of text."""
        return self.paint.p50_ms / self.bare_paint.p50_ms


def measure(runs: int, events_per_min: int, busy_s: float) -> Measured:
    """Needs root, for a daemon of its own. Raises HostUnsuitable without a browser, Unavailable."""
    if not CHROMIUM.exists():
        raise HostUnsuitable("there is no browser", value=CHROMIUM, remedy="Install Debian's package chromium.")
    try:
        import playwright  # noqa: F401 - asked for first, so that it is named where it lacks
    except ImportError as error:
        raise HostUnsuitable("playwright is missing", remedy="pip install playwright") from error
    with PrivateDaemon("bench", _ROLES) as daemon:
        return asyncio.run(_measure(daemon, runs, events_per_min, busy_s))


async def _measure(daemon: PrivateDaemon, runs: int, events_per_min: int, busy_s: float) -> Measured:
    async with (
        Client.connect(daemon.socket_of("agent")) as agent,
        _console(daemon) as link,
        _browser() as browser,
    ):
        page = await browser.new_page(viewport={"width": 1280, "height": 900})
        await page.goto(link)
        await page.click("main button")
        base = link.partition("/sign-in")[0]
        session = await agent.create_session("bench")
        with _bare() as bare:
            paints, bares = [], []
            for _ in range(runs):
                bares.append(await _painted(page, bare))
                paints.append(await _painted(page, base + "/"))
        await page.evaluate(_WATCH)
        observer = _Observer(daemon)
        async with observer.following():
            for _ in range(runs):
                await _ask(agent, session)
                await asyncio.sleep(0.15)  # each in a state of its own
            await observer.settled(runs)
            screen, _ = await _screened(page, observer)
            quiet = observer.records
            observer.records = {}
            await page.evaluate("() => { window.longest = 0; }")
            made = await _busy(agent, session, events_per_min, busy_s)
            await observer.settled(made)
            busy, unseen = await _screened(page, observer)
        return Measured(
            paint=Times.of(paints),
            bare_paint=Times.of(bares),
            screen=Times.of(screen),
            record=Times.of([got - made_at for made_at, got in quiet.values()]),
            busy_screen=Times.of(busy),
            busy_per_min=made / busy_s * 60,
            busy_unseen=unseen,
            busy_nodes=await page.evaluate("() => document.querySelectorAll('*').length"),
            busy_longest_ms=await page.evaluate("() => window.longest"),
        )


class _Observer:
    """A client that follows the records, too. records: by index, when each was made and when it was here, ns."""

    def __init__(self, daemon: PrivateDaemon) -> None:
        self._socket = daemon.socket_of("reviewer")
        self._news, self._here = asyncio.Condition(), asyncio.Event()
        self.records: dict[int, tuple[int, int]] = {}

    @contextlib.asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._follow())
        try:
            await asyncio.wait_for(self._here.wait(), _PATIENCE_S)
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def settled(self, count: int) -> None:
        async with asyncio.timeout(_PATIENCE_S), self._news:
            await self._news.wait_for(lambda: len(self.records) >= count)

    async def _follow(self) -> None:
        async with Client.connect(self._socket) as client:
            async for record in client.tail_audit(1, follow=True):  # the one before: nothing is missed behind it
                now = time.time_ns()
                self._here.set()
                found = records.decode(record.line)
                if isinstance(found, DecisionRecord):
                    self.records[record.index] = (found.time_us * 1000, now)
                    async with self._news:
                        self._news.notify_all()


async def _ask(agent: Client, session: str) -> None:
    await agent.decide(session, "Bash", {"command": "curl evil.example.com"})


async def _busy(agent: Client, session: str, events_per_min: int, busy_s: float) -> int:
    """Ask at the rate; how many were asked."""
    count = round(events_per_min * busy_s / 60)
    began = time.monotonic()
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await asyncio.sleep(max(0.0, began + number * 60 / events_per_min - time.monotonic()))
            await _ask(agent, session)

    async with asyncio.TaskGroup() as group:
        for _ in range(_CALLERS):
            group.create_task(work())
    return count


async def _screened(page: "Page", observer: _Observer) -> tuple[list[int], int]:
    """Nanoseconds from each record to the screen, and how many never were there. Raises Unavailable."""
    last = max(observer.records)
    await page.wait_for_function(f"() => window.seen['call-{last}']", timeout=_PATIENCE_S * 1000)
    seen: dict[str, float] = await page.evaluate("() => window.seen")
    found = {index: seen.get(f"call-{index}") for index in observer.records}
    times = [round(at * 1e6) - observer.records[index][0] for index, at in found.items() if at is not None]
    if not times:
        raise Unavailable("the screen never showed a call")
    return times, len(found) - len(times)


async def _painted(page: "Page", url: str) -> int:
    """Nanoseconds from the navigation to the first contentful paint."""
    await page.goto(url, wait_until="commit")
    milliseconds: float = await page.evaluate(_PAINT)
    return round(milliseconds * 1e6)


@contextlib.asynccontextmanager
async def _browser() -> "AsyncIterator[Browser]":
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=CHROMIUM, args=_FLAGS, chromium_sandbox=os.geteuid() != 0
        )
        try:
            yield browser
        finally:
            await browser.close()


@contextlib.asynccontextmanager
async def _console(daemon: PrivateDaemon) -> AsyncIterator[str]:
    """The command itself, and the link that it prints. Raises Unavailable."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "opensafe.cli", "console", "--listen", "127.0.0.1:0"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "OPENSAFE_SOCKET": str(daemon.socket_of("reviewer"))},
    )
    stdout, stderr = cast("asyncio.StreamReader", process.stdout), cast("asyncio.StreamReader", process.stderr)
    try:
        line = b""
        with contextlib.suppress(TimeoutError):
            line = await asyncio.wait_for(stdout.readline(), _PATIENCE_S)
        link = line.decode().rpartition(" ")[2].strip()
        if not link:
            process.kill()
            raise Unavailable(f"the console did not start: {(await stderr.read()).decode()[-500:]}")
        yield link
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


@contextlib.contextmanager
def _bare() -> Iterator[str]:
    """A page of one line, from a thread of this process."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<!doctype html><title>bare</title><p>bare"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:  # noqa: ANN401 - the library's form
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()
