"""A browser for tests of pages: Debian's Chromium, as people of several kinds have it, and what went wrong in it.

What a page may not do is a fault of it unless a test takes it: a script's error, a violation of the page's policy, a
file that is not there, a word to another host. The browser finds no host but this one.
"""

import contextlib
import os
from pathlib import Path

from playwright.async_api import Browser, BrowserContext, Page, async_playwright
from playwright.async_api import Error as PlaywrightError

__all__ = ["NARROW", "ROOT", "WIDE", "People", "axe", "chromium", "shot"]

ROOT = Path(__file__).resolve().parents[2]
WIDE = (1280, 900)
NARROW = (380, 800)

_CHROMIUM = "/usr/bin/chromium"
#: It asks nobody for news of its own; the names of others are unknown to it.
_FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--no-first-run",
)
_AXE = ROOT / "build" / "axe.min.js"
_RUN_AXE = "() => axe.run(document, {resultTypes: ['violations']})"
_GRAVE = ("serious", "critical")


@contextlib.asynccontextmanager
async def chromium():
    """A browser and the program that drives it, both ended with the block. Its loop is the block's."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=_CHROMIUM, args=_FLAGS, chromium_sandbox=os.geteuid() != 0
        )
        try:
            yield browser
        finally:
            await browser.close()


class People:
    """Each with cookies of their own, and with what the console says in their pages.

    faults: what went wrong since the start or since `take`, as text lines.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.faults: list[str] = []

    async def open(self, url="about:blank", *, size=WIDE, dark=False, locale="en", **more) -> Page:
        """A page of somebody who was not there before. Another of the same person: `page.context.new_page()`.

        size: in CSS pixels. locale: what their browser asks for. more: options of Playwright's `new_context`.
        """
        context = await self._browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            locale=locale,
            timezone_id="UTC",
            reduced_motion="reduce",
            **more,
        )
        self._contexts.append(context)
        context.on("console", self._heard)
        context.on("weberror", lambda problem: self.faults.append(f"uncaught: {problem.error.message}"))
        context.on("page", lambda page: page.on("crash", lambda crashed: self.faults.append(f"crashed: {crashed.url}")))
        page = await context.new_page()
        await page.goto(url)
        return page

    def _heard(self, message) -> None:
        if message.type == "error":
            self.faults.append(f"{message.text} [{message.location['url']}]")

    async def take(self) -> list[str]:
        """The faults until now, which the caller expects: they are none any more."""
        for page in [page for context in self._contexts for page in context.pages]:
            with contextlib.suppress(PlaywrightError):  # one that just goes elsewhere
                await page.evaluate("0")  # what a page said before its answer has arrived with it
        taken, self.faults = self.faults, []
        return taken

    async def leave(self) -> list[str]:
        """Close all pages. Returns the faults that nobody took."""
        left = await self.take()
        for context in self._contexts:
            await context.close()
        return left


async def axe(page: Page) -> list[str]:
    """What of a page not everybody can use, if it is serious or critical: a line for each element.

    By the rules of axe-core, which the debugger brings in: the page's policy doesn't keep it out.
    """
    await page.evaluate(_AXE.read_text())
    found = (await page.evaluate(_RUN_AXE))["violations"]
    grave = [violation for violation in found if violation["impact"] in _GRAVE]
    return [f"{one['id']} ({one['impact']}): {node['html']}" for one in grave for node in one["nodes"]]


async def shot(page: Page, name: str, *, whole=False) -> Path:
    """Write what is seen of a page, or the whole of it, to `build/console/NAME.png`."""
    path = ROOT / "build" / "console" / f"{name}.png"
    await page.screenshot(path=path, full_page=whole, animations="disabled")
    return path
