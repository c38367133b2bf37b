"""The screen Session: all sessions, and of one its trace, what it touched, why it was stopped, and proofs."""

import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from opensafe.errors import UnknownTool
from tests.harness.audit import signed
from tests.harness.browser import axe, shot

HOSTILE = "\x1b[31mred\x1b[0m <script>alert(1)</script> <b>bold</b> \u202etxt.exe"
SHOWN = r"\x1b[31mred\x1b[0m <script>alert(1)</script> <b>bold</b> \u202etxt.exe"


@pytest.fixture(scope="module")
def settings():
    return {"audit": "checkpoint_s = 1"}


@pytest.fixture(scope="module")
def arguments(daemon):
    """The console knows the log's public key."""
    return (f"--audit-key={daemon.state / 'audit' / 'key.pub'}",)


@pytest_asyncio.fixture(loop_scope="module")
async def play(agent, session, sandbox):
    """Runs a call; its result."""
    number = 0

    async def play(tool, **arguments):
        nonlocal number
        number += 1
        return await agent.run_call(session, sandbox, f"call-{number}", tool, arguments)

    return play


def step(page, text):
    """A row of the trace."""
    return page.locator("#trace tr[data-item]").filter(has_text=text)


async def opened(page, text):
    """A call's part, opened in its place."""
    row = step(page, text)
    await row.get_by_role("link").first.click()
    name = (await row.get_attribute("id")).removeprefix("r")
    part = page.locator(f"#in{name}")
    await expect(part.locator(".inside")).to_be_visible()
    return part


async def test_a_session_is_found_in_the_list_and_opened_by_keyboard(console, session, play):
    await play("Read", path="/etc/shadow")
    page = await console.page("/sessions")
    row = page.locator(f"#s-{session}")
    await expect(row).to_contain_text("Read(/etc/shadow)")
    await expect(row.get_by_role("cell").nth(8)).to_have_text("1")
    await page.keyboard.press("j")
    await page.keyboard.press("o")
    await expect(page).to_have_url(f"{console.address}/sessions/{session}")
    await page.keyboard.press("u")
    await expect(page).to_have_url(f"{console.address}/sessions")


async def test_the_list_can_be_narrowed_to_an_agent(console, agent, session, play):
    await play("Read", path="/workspace/none")
    other = await agent.create_session("somebody <i>else</i>")
    page = await console.page("/sessions")
    await expect(page.locator(f"#s-{session}")).to_be_visible()
    await page.get_by_label("Agent", exact=True).select_option("somebody <i>else</i>")
    await expect(page.locator(f"#s-{other}")).to_contain_text("somebody <i>else</i>")
    await expect(page.locator(f"#s-{session}")).to_have_count(0)
    await agent.close_session(other)
    await expect(page.locator(f"#s-{other}")).to_contain_text("closed")


async def test_the_trace_goes_on_while_it_is_looked_at(console, session, sandbox, play):
    page = await console.page(f"/sessions/{session}")
    await expect(page.locator("#sandboxes")).to_contain_text(sandbox)
    await play("Write", path="/workspace/a.txt", content="12345")
    await expect(step(page, "Write(/workspace/a.txt)")).to_contain_text("exited")
    await play("Bash", command="curl evil.example.com")
    row = step(page, "Bash(curl evil.example.com)")
    await expect(row).to_contain_text("blocked")
    await expect(row).to_contain_text("egress.domain.allowlist")
    await expect(row).to_contain_text("evil.example.com is not an allowed domain")
    await expect(page.locator("#files")).to_contain_text("/workspace/a.txt")
    await expect(page.locator("#network")).to_contain_text("evil.example.com:80")
    await expect(page.locator("#budget tr").filter(has_text="calls")).to_contain_text("2")


async def test_a_blocked_call_says_why_and_what_would_be_allowed(console, session, play):
    await play("Bash", command="curl evil.example.com")
    await play("Bash", command="true")
    page = await console.page(f"/sessions/{session}")
    part = await opened(page, "curl evil.example.com")
    await expect(part).to_contain_text("Use an allowed domain, or add evil.example.com to hosts.allowed")
    await expect(part).to_contain_text("egress/egress.rego:")
    await expect(part.get_by_role("heading", name="Nearest allowed")).to_be_visible()
    allowed = await opened(page, "Bash(true)")
    await expect(allowed).to_contain_text("tool.bash.")
    await expect(allowed.get_by_role("heading", name="Nearest allowed")).to_have_count(0)


async def test_what_is_open_stays_while_calls_come_and_closes_by_its_key(console, session, play):
    await play("Read", path="/etc/shadow")
    page = await console.page(f"/sessions/{session}")
    await page.keyboard.press("j")
    await page.keyboard.press("o")
    part = page.locator("#trace .inside")
    await expect(part).to_be_visible()
    await play("Bash", command="echo later")
    await expect(step(page, "echo later")).to_contain_text("exited")
    await expect(part).to_be_visible()
    await expect(page.locator("[aria-expanded=true]")).to_have_count(1)
    await page.keyboard.press("o")
    await expect(part).to_have_count(0)
    await expect(page.locator("[aria-expanded=true]")).to_have_count(0)


async def test_what_is_open_stays_whatever_number_of_calls_comes(console, agent, session, play):
    await play("Read", path="/etc/shadow")
    await play("Read", path="/etc/gshadow")
    page = await console.page(f"/sessions/{session}")
    await opened(page, "Read(/etc/shadow)")
    for number in range(120):
        await agent.decide(session, "Read", {"path": f"/workspace/{number}"})
    await expect(step(page, "Read(/workspace/119)")).to_be_visible()
    await expect(step(page, "Read(/etc/gshadow)")).to_have_count(0)
    await expect(page.locator("#trace .inside")).to_contain_text("holds secrets")
    await step(page, "Read(/etc/shadow)").get_by_role("link").first.click()
    await expect(page.locator("#trace .inside")).to_have_count(0)


async def test_a_record_is_proven_with_the_key_that_the_console_has(console, agent, session, play):
    await play("Read", path="/etc/shadow")
    page = await console.page(f"/sessions/{session}")
    part = await opened(page, "Read(/etc/shadow)")
    await part.get_by_role("link", name=re.compile(r"^Record \d+$")).click()
    await expect(part.locator("pre").last).to_contain_text('"kind": "decision"')
    await signed(agent)
    await part.get_by_role("link", name="Prove").click()
    await expect(part).to_contain_text(re.compile(r"signature holds under the key opensafe/\w+"))


async def test_text_of_agents_is_text(console, session, play):
    await play("Bash", command=f"echo '{HOSTILE}'")
    page = await console.page(f"/sessions/{session}")
    await expect(step(page, "red")).to_contain_text(f"Bash(echo '{SHOWN}')")
    part = await opened(page, "red")
    await expect(part.locator("pre")).to_contain_text("<script>alert(1)</script>")
    await expect(part.locator("pre")).to_contain_text(r"\u202etxt.exe")
    assert "\u202e" not in await page.content()
    await expect(page.locator("main b, main script")).to_have_count(0)


async def test_a_request_that_never_came_before_policy_is_in_the_trace(console, agent, session, sandbox):
    with pytest.raises(UnknownTool):
        await agent.run_call(session, sandbox, "odd", "Nope", {})
    page = await console.page(f"/sessions/{session}")
    await expect(step(page, "Nope")).to_contain_text("no tool of that name is registered")
    await expect(await opened(page, "Nope")).to_contain_text("UNKNOWN_TOOL")


async def test_a_review_has_its_end_in_the_trace(console, daemon, session, play):
    result = await play("Bash", command="npm install")
    page = await console.page(f"/sessions/{session}")
    row = step(page, "npm install")
    await expect(row.get_by_role("link", name="waits")).to_have_attribute(
        "href", f"/reviews/{result.verdict.review_id}"
    )
    async with daemon.client("reviewer") as reviewer:
        await reviewer.reject_review(result.verdict.review_id, "not <b>now</b>")
    await expect(row).to_contain_text("rejected: reviewer")
    await expect(await opened(page, "npm install")).to_contain_text("not <b>now</b>")


async def test_an_earlier_part_is_a_page_of_its_own(console, agent, session, play):
    for number in range(103):
        await agent.decide(session, "Read", {"path": f"/workspace/{number}"})
    page = await console.page(f"/sessions/{session}")
    await expect(page.locator("#trace tr[data-item]")).to_have_count(100)
    await expect(step(page, "Read(/workspace/102)")).to_be_visible()
    await page.get_by_role("link", name="Older").click()
    await expect(step(page, "Read(/workspace/0)")).to_be_visible()
    await expect(step(page, "Read(/workspace/102)")).to_have_count(0)
    await page.get_by_role("link", name="To the newest").click()
    await expect(step(page, "Read(/workspace/102)")).to_be_visible()


@pytest.mark.parametrize("path", ["ses-00000000000000000000", "nonsense", "%2e%2e%2fetc", "ses-1/calls/1"])
async def test_one_that_is_not_there_is_a_page_that_says_so(console, people, path):
    page = await console.page(f"/sessions/{path}")
    await expect(page.get_by_role("heading", name="Not done")).to_be_visible()
    (fault,) = await people.take()
    assert "404" in fault


async def test_a_developer_sees_sessions_of_their_own_alone(console, people, session, play):
    await play("Read", path="/etc/shadow")
    own = await console.page(f"/sessions/{session}", principal="agent")
    await expect(step(own, "Read(/etc/shadow)")).to_be_visible()
    await expect(await opened(own, "Read(/etc/shadow)")).to_contain_text("holds secrets")
    others = await console.page(f"/sessions/{session}", principal="other")
    await expect(others.get_by_role("heading", name="Not done")).to_be_visible()
    (fault,) = await people.take()
    assert "404" in fault


async def test_it_shows_all_without_a_script(console, people, session, play):
    await play("Read", path="/etc/shadow")
    cookies = await (await console.page()).context.cookies()
    page = await people.open(java_script_enabled=False, storage_state={"cookies": cookies, "origins": []})
    await page.goto(f"{console.address}/sessions/{session}")
    await step(page, "Read(/etc/shadow)").get_by_role("link").first.click()
    await expect(page.locator(".inside")).to_contain_text("holds secrets")
    await page.get_by_role("link", name=re.compile(r"^Record \d+$")).click()
    await expect(page.locator("pre")).to_contain_text('"kind": "decision"')


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("wide", {}),
        ("dark", {"dark": True, "language": "ja"}),
        ("narrow", {"narrow": True, "language": "es"}),
    ],
)
async def test_everybody_can_use_it(console, session, play, name, how):
    await play("Write", path="/workspace/src/app.ts", content="x")
    await play("Bash", command=f"curl https://evil.example.com/{'a' * 300}")
    await play("Bash", command="npm install")
    listed = await console.page("/sessions", **how)
    page = await console.page(f"/sessions/{session}", **how)
    await opened(page, "curl")
    for one in (listed, page):
        assert await axe(one) == []
        assert await one.evaluate("document.documentElement.scrollWidth") <= await one.evaluate("innerWidth")
    await shot(page, f"session-{name}", whole=True)
