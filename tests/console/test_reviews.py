"""The screen Reviews, by keyboard: what was shown is what is approved, and it runs once. G28, G29."""

import asyncio
import json

import pytest
from playwright.async_api import expect

from opensafe.model.outcome import OutcomeKind
from tests.harness.browser import axe, shot

# npm is not in the image: the marker is what shows that the line was run.
INSTALL = {"command": "npm install left-pad; echo ran"}
UNCLEAR = {"command": "$(echo echo) hello | tee -a log"}


async def park(agent, session, sandbox, call_id, arguments=INSTALL):
    """A call that waits; the review's id."""
    result = await agent.run_call(session, sandbox, call_id, "Bash", arguments)
    assert result.outcome.kind is OutcomeKind.REVIEW_PENDING
    return result.verdict.review_id


@pytest.fixture
def parked(agent, session, sandbox):
    """parked(call_id, arguments): a call that waits; the review's id."""
    return lambda call_id, arguments=INSTALL: park(agent, session, sandbox, call_id, arguments)


async def test_a_call_is_approved_by_keyboard_alone_and_runs_once(daemon, console, parked, agent, session, sandbox):
    page = await console.page()
    await page.keyboard.press("g")
    await page.keyboard.press("r")
    await expect(page.get_by_role("heading", name="Waiting: 0")).to_be_visible()
    review = await parked("first")
    waits = page.locator(f"#open-{review}")
    await expect(waits).to_have_text(f"Bash({INSTALL['command']})")
    await page.keyboard.press("j")
    await expect(waits).to_be_focused()
    await page.keyboard.press("o")
    await expect(page.locator(".exact li")).to_have_text(INSTALL["command"])
    await expect(page.locator("aside")).to_contain_text("waits")
    before = daemon.starts()
    await page.keyboard.press("a")
    await expect(page.get_by_role("status")).to_contain_text("Approved: exactly this call runs, once.")
    await expect(page).to_have_url(f"{console.address}/reviews")
    for _ in range(2):
        result = await agent.run_call(session, sandbox, "first", "Bash", INSTALL)
        assert result.stdout == b"ran\n"
    assert daemon.starts() == before + 1


async def test_what_changed_while_the_page_was_open_has_to_be_looked_at(console, parked, agent, session, sandbox):
    review = await parked("changing")
    page = await console.page(f"/reviews/{review}")
    await expect(page.locator("aside .flags")).not_to_contain_text("may have changed its workspace")
    await agent.run_call(session, sandbox, "writes", "Bash", {"command": "echo x > x"})
    await page.keyboard.press("a")
    await expect(page.locator("aside .flags")).to_contain_text("may have changed its workspace")
    await expect(page).to_have_url(f"{console.address}/reviews/{review}")
    await expect(page.locator("aside")).to_contain_text("waits")
    await page.keyboard.press("a")
    await expect(page.get_by_role("status")).to_contain_text("Approved: exactly this call runs, once.")


async def test_after_a_decision_the_next_has_the_focus(console, parked):
    reviews = [await parked(f"next-{number}", {"command": f"npm install p{number}"}) for number in range(3)]
    page = await console.page(f"/reviews/{reviews[1]}")
    await page.keyboard.press("a")
    await expect(page.locator(f"#open-{reviews[2]}")).to_be_focused()
    await expect(page.locator(f"#open-{reviews[1]}")).to_have_count(0)
    await page.keyboard.press("k")
    await expect(page.locator(f"#open-{reviews[0]}")).to_be_focused()


async def test_a_rejection_takes_a_reason_which_the_agent_gets(daemon, console, parked, agent, session, sandbox):
    review = await parked("refused")
    page = await console.page(f"/reviews/{review}")
    before = daemon.starts()
    await page.keyboard.press("r")
    await expect(page.get_by_label("Reason")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{console.address}/reviews/{review}")
    await page.keyboard.type("approve nothing on a friday", delay=1)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status")).to_contain_text("Rejected; the reason reaches the agent.")
    result = await agent.run_call(session, sandbox, "refused", "Bash", INSTALL)
    assert result.outcome.kind is OutcomeKind.REVIEW_REJECTED
    assert "approve nothing on a friday" in result.outcome.detail
    assert daemon.starts() == before


async def test_of_two_reviewers_the_second_is_told_who_was_first(daemon, console, parked, agent, session, sandbox):
    review = await parked("raced")
    before = daemon.starts()
    first, second = await console.page(), await console.page(principal="second")
    for page in (first, second):
        await page.route("**/events", lambda _: None)  # neither hears of the other before both have pressed
        await page.goto(f"{console.address}/reviews/{review}")
    await asyncio.gather(*(page.keyboard.press("a") for page in (first, second)))
    won, lost = first, second
    await expect(first.locator("#told")).to_be_visible()
    await expect(second.locator("#told")).to_be_visible()
    if "Too late" in await first.locator("#told").inner_text():
        won, lost = second, first
    name = {first: "reviewer", second: "second"}[won]
    await expect(won.locator("#told")).to_contain_text("Approved: exactly this call runs, once.")
    await expect(lost.locator("#told")).to_contain_text(f"Too late: {name} decided first.")
    for _ in range(2):
        assert (await agent.run_call(session, sandbox, "raced", "Bash", INSTALL)).stdout == b"ran\n"
    assert daemon.starts() == before + 1


async def test_a_page_hears_that_somebody_else_decided(daemon, console, parked):
    review = await parked("heard")
    page = await console.page(f"/reviews/{review}")
    await expect(page.get_by_role("button", name="Approve")).to_be_visible()
    async with daemon.client("second") as second:
        await second.reject_review(review, "mine")
    await expect(page.locator("#standing")).to_contain_text("rejected")
    await expect(page.locator("#standing")).to_contain_text("second")
    await expect(page.get_by_role("button", name="Approve")).to_have_count(0)


async def test_what_is_typed_is_not_taken_by_news(console, parked, agent, session, sandbox):
    review = await parked("typing")
    page = await console.page(f"/reviews/{review}")
    await expect(page.locator("html")).to_have_attribute("data-messages", "2")
    await page.keyboard.press("r")
    await page.keyboard.type("half a reason")
    await agent.run_call(session, sandbox, "touch", "Write", {"path": "/workspace/a", "content": "x"})
    again = await console.page(f"/reviews/{review}")  # by which the console hears of it
    await expect(again.locator("#standing")).to_contain_text("may have changed its workspace")
    await expect(page.locator("#standing")).to_contain_text("may have changed its workspace")
    await expect(page.get_by_label("Reason")).to_have_value("half a reason")
    await page.keyboard.press("Escape")
    await expect(page.get_by_label("Reason")).not_to_be_focused()


async def test_another_digest_than_was_shown_approves_nothing(daemon, console, parked, agent, session, sandbox):
    review = await parked("swapped")
    page = await console.page(f"/reviews/{review}")
    await page.locator("input[name=digest]").evaluate("field => field.value = '0'.repeat(64)")
    await page.keyboard.press("a")
    await expect(page.locator("#told")).to_contain_text("it is no longer as that page showed it")
    assert (await agent.get_call(session, "swapped")).state == "parked"
    await page.keyboard.press("a")  # a benign twin: the page as it is now
    await expect(page.locator("#told")).to_contain_text("Approved")


async def test_a_workspace_that_changed_meanwhile_is_looked_at_first(console, parked, agent, session, sandbox):
    review = await parked("stale")
    page = await console.page(f"/reviews/{review}")
    await expect(page.get_by_role("button", name="Approve")).to_be_visible()
    await agent.run_call(session, sandbox, "touch", "Write", {"path": "/workspace/a", "content": "x"})
    await page.keyboard.press("a")
    await expect(page.locator("#told")).to_contain_text("it is no longer as that page showed it")
    await expect(page.locator("#standing")).to_contain_text("1 calls that may have changed its workspace")
    await page.keyboard.press("a")
    await expect(page.locator("#told")).to_contain_text("Approved")


async def test_a_call_is_set_against_the_likest_that_was_allowed(console, parked, agent, session, sandbox):
    await agent.run_call(session, sandbox, "plain", "Bash", {"command": "echo hello | tee -a log"})
    page = await console.page(f"/reviews/{await parked('like', UNCLEAR)}")
    await expect(page.locator(".difference")).to_contain_text("hello | tee -a log")
    await expect(page.locator(".difference ins").first).to_contain_text("$")
    other = await console.page(f"/reviews/{await parked('unlike', {'command': 'npm install'})}", principal="second")
    await expect(other.get_by_text("None: no call like it was allowed")).to_be_visible()


HOSTILE = (
    "npm install '<script>document.title=1</script> <img src=x onerror=alert(1)>' "
    "'\x1b[2J\x1b]0;owned\x07 \u202eevil\u202c \u2066x\u2069' {{7*7}} аpt\r\n"
    "npm install second\u2028not a line " + "x" * 5000
)


@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
async def test_hostile_arguments_are_text(console, people, parked, narrow):
    review = await parked(f"hostile-{narrow}", {"command": HOSTILE})
    page = await console.page(f"/reviews/{review}", narrow=narrow)
    lines = page.locator(".exact li")
    await expect(lines).to_have_count(2)
    shown = "\n".join(await lines.all_inner_texts())
    assert "'<script>document.title=1</script> <img src=x onerror=alert(1)>'" in shown
    assert "'\\x1b[2J\\x1b]0;owned\\x07 \\u202eevil\\u202c \\u2066x\\u2069' {{7*7}}" in shown
    assert "install second\\u2028not a line" in shown
    for sign in ("\x1b", "\u202e", "\u2066", "\u2028", "\r"):
        assert sign not in await page.content()
    await expect(page.locator(".foreign")).to_contain_text("CYRILLIC SMALL LETTER A")
    await page.locator("summary").click()
    assert json.loads(await page.locator("details pre").inner_text()) == {"command": HOSTILE}
    await expect(page).to_have_title(f"Review {review} · OpenSafe")
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    queue = await console.page("/reviews", narrow=narrow)
    await expect(queue.locator(f"#open-{review}")).to_contain_text("<script>")
    assert await queue.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


async def test_a_call_too_large_for_a_page_says_so_and_is_there_whole(console, parked):
    command = "npm install x" + "\n" * 5000 + "npm install y"
    page = await console.page(f"/reviews/{await parked('large', {'command': command})}")
    await expect(page.get_by_role("alert").first).to_contain_text("characters of this are not on this page")
    await page.locator("summary").click()
    async with page.expect_download() as started:
        await page.get_by_role("link", name="Download the whole call").click()
    path = await (await started.value).path()
    assert json.loads(path.read_bytes()) == {"command": command}


async def test_an_agents_own_principal_has_no_queue_and_decides_nothing(console, people, parked):
    review = await parked("own")
    page = await console.page("/reviews", principal="agent")
    await expect(page.get_by_text("agent may not review: that takes the role reviewer.")).to_be_visible()
    await expect(page.locator("#queue")).to_have_count(0)
    await page.goto(f"{console.address}/reviews/{review}")
    await expect(page.get_by_text("This is a call of your own: somebody else decides on it.")).to_be_visible()
    await expect(page.locator("form[action$=approve], form[action$=reject]")).to_have_count(0)
    csrf = await page.locator("input[name=csrf]").first.input_value()
    answer = await page.request.post(
        f"{console.address}/reviews/{review}/reject",
        form={"csrf": csrf, "reason": "x"},
        headers={"origin": console.address},
    )
    assert "role" in await answer.text()
    other = await console.page(f"/reviews/{review}", principal="other")
    await expect(other.get_by_role("alert")).to_contain_text("no such review")
    assert len(await people.take()) == 1


async def test_a_form_of_somewhere_else_decides_nothing(console, parked, agent, session):
    review = await parked("forged")
    page = await console.page(f"/reviews/{review}")
    digest = await page.locator("input[name=digest]").input_value()
    fields = {"digest": digest, "changes": "0", "taints": "", "csrf": "guessed"}
    answer = await page.request.post(f"{console.address}/reviews/{review}/approve", form=fields)
    assert answer.status == 403
    assert (await agent.get_call(session, "forged")).state == "parked"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
async def test_everybody_can_use_it(console, parked, agent, session, sandbox, narrow, dark):
    await agent.run_call(session, sandbox, "plain", "Bash", {"command": "echo hello | tee -a log"})
    await agent.run_call(session, sandbox, "bad", "Read", {"path": "/etc/shadow"})
    await parked("other", {"command": "npm install"})
    review = await parked("shown", UNCLEAR)
    kind = f"{'narrow' if narrow else 'wide'}-{'dark' if dark else 'light'}"
    for name, path in (("review", f"/reviews/{review}"), ("reviews", "/reviews"), ("reviews-all", "/reviews?all=1")):
        page = await console.page(path, narrow=narrow, dark=dark)
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert await axe(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        await shot(page, f"{name}-{kind}", whole=True)


@pytest.mark.parametrize(("language", "said"), [("ja", "承認"), ("es", "Aprobar")])
async def test_it_speaks_other_languages(console, parked, language, said):
    page = await console.page(f"/reviews/{await parked(f'in-{language}')}", language=language)
    await expect(page.locator("[data-key=a]")).to_contain_text(said)
