"""The frame around the screens: signing in and out, the language, and that a page is live."""

import pytest
from playwright.async_api import expect

pytestmark = [pytest.mark.root, pytest.mark.runsc]


async def test_a_link_signs_in_once(console, people):
    link = console.process.link("reviewer")
    page = await people.open(link)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.locator(".person")).to_have_text("reviewer")
    again = await people.open(link)
    await again.get_by_role("button", name="Sign in").click()
    await expect(again.get_by_role("alert")).to_have_text("This link was used or is too old.")
    (fault,) = await people.take()
    assert "403" in fault


async def test_signing_out_ends_the_session(console):
    page = await console.page(new=True)
    await page.get_by_role("button", name="Sign out").click()
    await page.goto(console.address)
    await expect(page).to_have_url(f"{console.address}/sign-in")


@pytest.mark.parametrize(("language", "said"), [("en", "Sign out"), ("ja", "サインアウト"), ("es", "Cerrar sesión")])
async def test_it_speaks_as_the_browser_asks(console, language, said):
    page = await console.page(language=language)
    await expect(page.locator("html")).to_have_attribute("lang", language)
    await expect(page.locator("form[action='/sign-out'] button")).to_have_text(said)


async def test_what_an_agent_does_comes_without_a_reload(console, agent, session, sandbox):
    page = await console.page()
    await agent.run_call(session, sandbox, "call", "Read", {"path": "/etc/shadow"})
    await expect(page.locator("#banner")).to_contain_text("Read(/etc/shadow)")
