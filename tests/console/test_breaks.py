"""What breaks under a page: the daemon, the console, the session. It says so, and goes on without gap or repetition."""

import asyncio
import contextlib

import pytest
from playwright.async_api import expect

from tests.harness.console import Console, Seen
from tests.harness.daemon import running

pytestmark = [pytest.mark.root, pytest.mark.runsc]


async def test_it_goes_on_after_the_daemon_without_gap_or_repetition(people):
    with running(staffed=True) as daemon, Console(daemon, ("reviewer",)) as console:
        seen = Seen(console, people)
        async with daemon.client() as agent:
            session = await agent.create_session("before")
            for number in range(5):
                await agent.decide(session, "Bash", {"command": f"echo before-{number}"})
        page = await seen.page("/")
        await expect(page.locator("#trace")).to_contain_text("before-4")
        assert daemon.stop() == 0
        await expect(page.locator("#banner")).to_contain_text("The daemon does not answer")
        daemon.start()
        async with daemon.client() as agent:
            for number in range(5):
                await agent.decide(session, "Bash", {"command": f"echo after-{number}"})
        await expect(page.locator("#trace")).to_contain_text("after-4")
        await expect(page.locator("#banner")).not_to_contain_text("The daemon does not answer")
        commands = await page.locator("#trace tbody code bdi").all_inner_texts()
        assert commands == [f"echo {when}-{number}" for when in ("after", "before") for number in (4, 3, 2, 1, 0)]
        await page.close()


class Wire:
    """Between a browser and a console, on a port of its own: what goes over it can be cut, and mended."""

    def __init__(self):
        self.to = None
        self.port = 0
        self.taken = 0
        self._whole = True
        self._open = set()

    @contextlib.asynccontextmanager
    async def laid(self):
        async with await asyncio.start_server(self._carry, "127.0.0.1", 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            yield self
            self.cut()

    def cut(self):
        self._whole = False
        for writer in self._open:
            writer.transport.abort()

    def mend(self):
        self._whole = True

    async def _carry(self, reader, writer):
        self.taken += 1
        if not self._whole:
            writer.transport.abort()
            return
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self.to)
        ends = {writer, to_writer}
        self._open |= ends
        try:
            await asyncio.gather(_pumped(reader, to_writer), _pumped(to_reader, writer))
        finally:
            self._open -= ends
            for end in ends:
                end.close()


async def _pumped(reader, writer):
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
    writer.close()


async def test_a_browser_that_was_away_sees_what_came_meanwhile_once(people, daemon, agent, session):
    wire = Wire()
    async with wire.laid():
        with Console(daemon, ("reviewer",), f"--allow-host=127.0.0.1:{wire.port}") as console:
            wire.to = int(console.address.rpartition(":")[2])
            link = console.link("reviewer").replace(f":{wire.to}/", f":{wire.port}/")
            page = await people.open(link)
            await page.locator("form[action='/sign-in'] button").click()
            await agent.decide(session, "Bash", {"command": "echo while-here"})
            await expect(page.locator("#trace")).to_contain_text("while-here")
            async with page.expect_event("requestfailed"):
                wire.cut()
            await agent.decide(session, "Bash", {"command": "echo while-away"})
            taken = wire.taken
            async with page.expect_event("requestfailed", timeout=20_000):  # it tries, and can't
                pass
            assert wire.taken > taken
            assert "while-away" not in await page.locator("#trace").inner_text()
            wire.mend()
            await expect(page.locator("#trace")).to_contain_text("while-away", timeout=20_000)
            assert await page.locator("#trace code", has_text="while-away").count() == 1
            assert await page.locator("#trace code", has_text="while-here").count() == 1
            assert await people.take() != []  # the browser says that it was cut off
            await page.close()


async def test_a_session_that_is_over_is_told_and_shows_nothing_more(people, daemon, agent, session):
    with Console(daemon, ("reviewer",), "--idle", "2") as console:
        page = await console.sign_in(people, "reviewer")
        await expect(page.locator("#ended")).to_be_visible(timeout=20_000)
        await agent.decide(session, "Bash", {"command": "echo too-late"})
        await page.reload()
        await page.wait_for_url("**/sign-in")
        assert "too-late" not in await page.content()


async def test_signing_out_ends_the_other_pages_of_the_session_too(console):
    page = await console.page("/", new=True)
    other = await page.context.new_page()
    await other.goto(f"{console.address}/")
    await page.get_by_role("button", name="Sign out").click()
    await page.wait_for_url("**/sign-in")
    await expect(other.locator("#ended")).to_be_visible()
    await page.goto(f"{console.address}/")
    await page.wait_for_url("**/sign-in")


async def test_a_link_works_once(console, people):
    link = console.process.link("second")
    first = await people.open(link)
    await first.locator("main button").click()
    await first.wait_for_url(f"{console.address}/")
    again = await people.open(link)
    await again.locator("main button").click()
    await expect(again.get_by_role("alert")).to_contain_text("was used or is too old")
    (fault,) = await people.take()
    assert "403" in fault


async def test_nobody_who_is_not_signed_in_sees_anything(console, people, agent, session):
    await agent.decide(session, "Bash", {"command": "echo for-people-alone"})
    page = await people.open(f"{console.address}/")
    await page.wait_for_url("**/sign-in")
    answer = await page.request.get(f"{console.address}/live/events", max_redirects=0)
    assert (await answer.text()).startswith("event: ended\n")
    assert "for-people-alone" not in await answer.text()
