"""The frame around the screens: the language, and that a page is live."""

import pytest
from playwright.async_api import expect


@pytest.mark.parametrize(("language", "said"), [("en", "Sign out"), ("ja", "サインアウト"), ("es", "Cerrar sesión")])
async def test_it_speaks_as_the_browser_asks(console, language, said):
    page = await console.page(language=language)
    await expect(page.locator("html")).to_have_attribute("lang", language)
    await expect(page.locator("form[action='/sign-out'] button")).to_have_text(said)


async def test_what_an_agent_does_comes_without_a_reload(console, agent, session, sandbox):
    page = await console.page()
    await agent.run_call(session, sandbox, "call", "Read", {"path": "/etc/shadow"})
    await expect(page.locator("#banner")).to_contain_text("Read(/etc/shadow)")
