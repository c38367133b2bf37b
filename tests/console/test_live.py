"""The live screen, in a browser before a real daemon: what happens is seen, and what agents write steers nothing."""

import pytest
from playwright.async_api import expect

from tests.harness.browser import axe, shot

HOSTILE = (
    "<script>document.title='owned'</script>",
    "<img src=x onerror=document.title='owned'>",
    "'\"><svg/onload=document.title='owned'>",
    "{{ 7*7 }}{% raw %}",
    "\x1b[31m\x1b]0;owned\x07",
    "safe\u202egnp.exe",
    "a\r\n\r\nevent: ended\r\ndata: x\r\n\r\n",
    "\u2028event: ended\u2028",
    "hx-get=/sign-out hx-trigger=load",
)


async def test_a_blocked_call_is_on_the_banner_with_rule_and_remedy(console, agent, session, sandbox):
    page = await console.page("/")
    result = await agent.run_call(session, sandbox, "curl", "Bash", {"command": "curl evil.example.com"})
    assert result.verdict.action == "block"
    banner = page.locator("#banner")
    await expect(banner).to_contain_text("Bash(curl evil.example.com)")
    await expect(banner).to_contain_text("egress.domain.allowlist")
    await expect(banner).to_contain_text("tester")
    row = page.locator("#rules tr", has_text="tool.bash.network.deny")
    await expect(row).to_contain_text("high")
    await expect(row.locator("svg")).to_have_attribute("aria-label", "1 hits in the last five minutes, over time")


async def test_an_allowed_call_is_in_the_trace_and_not_on_the_banner(console, agent, session, sandbox):
    page = await console.page("/")
    await agent.run_call(session, sandbox, "hello", "Bash", {"command": "echo a-benign-call"})
    row = page.locator("#trace tr", has_text="echo a-benign-call")
    await expect(row).to_contain_text("allowed")
    await expect(row).to_contain_text("exited")
    await expect(page.locator("#banner")).not_to_contain_text("a-benign-call")


async def test_the_runtime_is_told(console, sandbox):
    page = await console.page("/")
    strip = page.locator("#runtime")
    await expect(strip).to_contain_text("4/4")
    await expect(strip.locator("div", has_text="Sandboxes").locator("dd")).to_have_text("1")
    await expect(strip.locator("div", has_text="CPUs in use").locator("dd")).to_contain_text(" / ")
    await expect(strip.locator("div", has_text="Memory").locator("dd")).to_contain_text("MiB")


@pytest.mark.parametrize(("number", "text"), enumerate(HOSTILE))
async def test_what_agents_write_is_text(console, agent, session, sandbox, number, text):
    page = await console.page("/")
    await agent.decide(session, "Bash", {"command": f"curl evil.example.com # n{number} {text} end{number}"})
    await agent.decide(session, "Bash", {"command": f"curl evil.example.com # next{number}"})
    await expect(page.locator("#trace tr", has_text=f"next{number}")).to_be_visible()
    await expect(page).to_have_title("Live · OpenSafe")
    await expect(page.locator("#ended")).to_be_hidden()
    row = page.locator("#trace tr", has_text=f"n{number} ")
    await expect(row).to_contain_text(f"end{number}")
    assert await row.locator("td").count() == 8
    shown = await row.inner_text()
    assert not any(char in shown for char in "\x1b\u202e\u2028")


async def test_a_long_line_is_cut(console, agent, session):
    page = await console.page("/")
    await agent.decide(session, "Bash", {"command": "echo long-one " + "x" * 60_000})
    row = page.locator("#trace tr", has_text="long-one")
    await expect(row).to_be_visible()
    assert len(await row.inner_text()) < 1000


async def test_another_principals_calls_are_not_shown(console, agent, session, daemon):
    async with daemon.client("other") as other:
        foreign = await other.create_session("foreign")
        await other.decide(foreign, "Bash", {"command": "echo not-for-the-agent"})
        await agent.decide(session, "Bash", {"command": "echo for-the-agent"})
        page = await console.page("/", principal="agent")
        await expect(page.locator("#trace")).to_contain_text("for-the-agent")
        await other.decide(foreign, "Bash", {"command": "echo nor-this"})
        await agent.decide(session, "Bash", {"command": "echo the-last"})
        await expect(page.locator("#trace")).to_contain_text("the-last")
        assert "not-for" not in await page.content()
        assert "nor-this" not in await page.content()
        auditor = await console.page("/")
        await auditor.locator("#trace .chips a", has_text="foreign").click()
        await expect(auditor.locator("#trace")).to_contain_text("nor-this")
        await expect(auditor.locator("#trace")).not_to_contain_text("the-last")
        await other.close_session(foreign)


async def test_the_page_stays_small_whatever_happens(console, agent, session):
    page = await console.page("/")
    for number in range(120):
        await agent.decide(session, "Bash", {"command": f"echo number-{number}"})
    await expect(page.locator("#trace")).to_contain_text("number-119")
    assert await page.locator("#trace tbody tr").count() == 40


async def test_focus_stays_where_it_is_while_the_screen_moves(console, agent, session):
    page = await console.page("/")
    await agent.decide(session, "Bash", {"command": "echo keep-me"})
    link = page.locator("#trace a", has_text="keep-me")
    await link.focus()
    await agent.decide(session, "Bash", {"command": "echo newer"})
    await expect(page.locator("#trace")).to_contain_text("newer")
    await expect(link).to_be_focused()


async def test_keys_lead_to_screens_and_along_rows(console, agent, session):
    page = await console.page("/")
    for name in ("one", "two"):
        await agent.decide(session, "Bash", {"command": f"echo row-{name}"})
    await expect(page.locator("#trace")).to_contain_text("row-two")
    await page.keyboard.press("j")
    await expect(page.locator("#trace a", has_text="row-two")).to_be_focused()
    await page.keyboard.press("j")
    await expect(page.locator("#trace a", has_text="row-one")).to_be_focused()
    await page.keyboard.press("?")
    await expect(page.locator("dialog")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator("dialog")).to_be_hidden()
    await page.keyboard.press("g")
    await page.keyboard.press("r")
    await page.wait_for_url("**/reviews")


async def test_single_keys_can_be_turned_off_and_on_again(console, agent, session):
    page = await console.page("/")
    await agent.decide(session, "Bash", {"command": "echo a-row"})
    row = page.locator("#trace a[data-main]", has_text="a-row")
    await expect(row).to_be_visible()
    for works in (False, True):
        await page.keyboard.press("?")
        await page.locator("#keys-on").set_checked(works)
        await page.keyboard.press("Escape")
        await page.keyboard.press("j")
        await (expect(row).to_be_focused() if works else expect(row).not_to_be_focused())
        await page.reload()


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("dark", [False, True])
async def test_everybody_can_use_it_and_nothing_overflows(console, agent, session, sandbox, narrow, dark):
    await agent.run_call(session, sandbox, f"look-{narrow}-{dark}", "Read", {"path": "/etc/shadow"})
    page = await console.page("/", narrow=narrow, dark=dark)
    await expect(page.locator("#banner")).to_contain_text("/etc/shadow")
    assert await axe(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    await shot(page, f"live-{'narrow' if narrow else 'wide'}-{'dark' if dark else 'light'}")


@pytest.mark.parametrize(("language", "word"), [("ja", "ライブ"), ("es", "En vivo"), ("fr", "Live")])
async def test_it_speaks_the_browsers_language(console, language, word):
    page = await console.page("/", language=language)
    await expect(page.locator("nav a").first).to_have_text(word)


async def test_the_language_can_be_chosen(console):
    page = await console.page("/")
    await page.locator("#language").select_option("ja")
    await expect(page.locator("nav a").first).to_have_text("ライブ")
    assert await page.locator("html").get_attribute("lang") == "ja"
