"""The screen Compare: two sessions side by side."""

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.harness.browser import axe, shot


@pytest_asyncio.fixture(loop_scope="module")
async def runs(agent):
    """Two sessions that did the same but for one call each, and one file that only the second had."""
    made: list[str] = []
    for middle in ("curl evil.example.com", "echo evil.example.com"):
        session = await agent.create_session("tester <b>one</b>")
        sandbox = (await agent.create_sandbox(session)).sandbox_id
        commands = ["true", middle, *(["exit 3"] if made else ["exit 0"])]
        for number, command in enumerate(commands):
            await agent.run_call(session, sandbox, f"call-{number}", "Bash", {"command": command})
        made.append(session)
    arguments = {"path": "/workspace/only.txt", "content": "x"}
    await agent.run_call(session, sandbox, "only", "Write", arguments)
    yield made
    for session in made:
        await agent.close_session(session)


def row(page, text):
    return page.locator(".beside tr[data-item]").filter(has_text=text)


async def test_what_is_the_same_and_what_is_not(console, runs):
    page = await console.page(f"/compare?a={runs[0]}&b={runs[1]}")
    await expect(row(page, "Bash(true)").get_by_role("cell").first).to_have_text("same")
    differing = row(page, "curl evil.example.com")
    await expect(differing).to_contain_text("echo evil.example.com")
    await expect(differing.get_by_role("cell").first).to_contain_text("call, verdict, rules")
    await expect(row(page, "exit 3")).to_contain_text("exited 3")
    await expect(row(page, "Write(/workspace/only.txt)").get_by_role("cell").first).to_have_text("only in B")
    totals = page.get_by_role("region", name="Totals")
    await expect(totals.locator("tr").nth(1)).to_contain_text(runs[0])
    await expect(totals.locator("tr").nth(1).get_by_role("cell").nth(3)).to_have_text("1")
    await expect(totals.locator("tr").nth(2).get_by_role("cell").nth(3)).to_have_text("0")


async def test_differences_alone(console, runs):
    page = await console.page(f"/compare?a={runs[0]}&b={runs[1]}")
    await page.keyboard.press("d")
    await expect(page).to_have_url(f"{console.address}/compare?a={runs[0]}&b={runs[1]}&only=1")
    await expect(row(page, "Bash(true)")).to_have_count(0)
    await expect(row(page, "only.txt")).to_have_count(1)


async def test_both_are_chosen_from_lists(console, runs):
    page = await console.page("/compare")
    await expect(page.locator(".beside")).to_have_count(0)
    await page.get_by_label("A", exact=True).select_option(runs[0])
    await expect(page.get_by_label("A", exact=True)).to_have_value(runs[0])
    await page.get_by_label("B", exact=True).select_option(runs[1])
    await expect(row(page, "only.txt")).to_have_count(1)


async def test_a_session_is_compared_with_itself(console, runs):
    page = await console.page(f"/compare?a={runs[0]}&b={runs[0]}")
    await expect(page.get_by_text("0 rows differ")).to_be_visible()


async def test_a_session_leads_here(console, runs):
    page = await console.page(f"/sessions/{runs[0]}")
    await page.keyboard.press("c")
    await expect(page.get_by_label("A", exact=True)).to_have_value(runs[0])


async def test_one_that_is_not_there_is_a_page_that_says_so(console, people, runs):
    page = await console.page(f"/compare?a={runs[0]}&b=ses-00000000000000000000")
    await expect(page.get_by_role("heading", name="Not done")).to_be_visible()
    (fault,) = await people.take()
    assert "404" in fault


async def test_others_sessions_are_not_to_be_had(console, people, runs):
    page = await console.page(f"/compare?a={runs[0]}&b={runs[1]}", principal="other")
    await expect(page.get_by_role("heading", name="Not done")).to_be_visible()
    (fault,) = await people.take()
    assert "404" in fault


@pytest.mark.parametrize(
    ("name", "how"),
    [("wide", {}), ("dark", {"dark": True, "language": "ja"}), ("narrow", {"narrow": True, "language": "es"})],
)
async def test_everybody_can_use_it(console, runs, name, how):
    page = await console.page(f"/compare?a={runs[0]}&b={runs[1]}", **how)
    assert await axe(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= await page.evaluate("innerWidth")
    assert await page.locator("main b").count() == 0
    await shot(page, f"compare-{name}", whole=True)
