"""Where two people must approve: one alone runs nothing, and each is told what the other did. G58."""

import pytest
from playwright.async_api import expect

from opensafe.model.outcome import OutcomeKind

INSTALL = {"command": "npm install left-pad; echo ran"}


@pytest.fixture(scope="module")
def settings():
    return {"caps": "approvals_needed = 2"}


@pytest.fixture
def parked(agent, session, sandbox):
    """parked(call_id): a call that waits; the review's id."""

    async def park(call_id):
        result = await agent.run_call(session, sandbox, call_id, "Bash", INSTALL)
        assert result.outcome.kind is OutcomeKind.REVIEW_PENDING
        return result.verdict.review_id

    return park


async def test_a_call_runs_when_two_have_approved_and_not_before(daemon, console, parked, agent, session, sandbox):
    review = await parked("two")
    before = daemon.starts()
    first = await console.page(f"/reviews/{review}")
    other = await console.page(f"/reviews/{review}", principal="second")
    await expect(first.get_by_text("As the first of two: another reviewer must approve, too.")).to_be_visible()
    await first.keyboard.press("a")
    await expect(first.get_by_role("status")).to_contain_text("Approved by you; another reviewer must approve, too.")
    await expect(first.locator(f"#{review}")).to_contain_text("1/2")
    await expect(other.locator("#standing")).to_contain_text("1 of 2 (reviewer)")
    assert (await agent.get_call(session, "two")).state == "parked"
    await first.keyboard.press("o")
    await expect(first.get_by_text("You approved; another reviewer must approve, too.")).to_be_visible()
    await expect(first.get_by_role("button", name="Approve")).to_have_count(0)
    assert daemon.starts() == before
    await other.keyboard.press("a")
    await expect(other.get_by_role("status")).to_contain_text("Approved: exactly this call runs, once.")
    await expect(first.locator("#standing")).to_contain_text("approved")
    assert (await agent.run_call(session, sandbox, "two", "Bash", INSTALL)).stdout == b"ran\n"
    assert daemon.starts() == before + 1


async def test_one_of_two_can_reject(console, parked, agent, session, sandbox):
    review = await parked("no")
    first = await console.page(f"/reviews/{review}")
    await first.keyboard.press("a")
    await expect(first.get_by_role("status")).to_contain_text("Approved by you")
    other = await console.page(f"/reviews/{review}", principal="second")
    await other.keyboard.press("r")
    await other.keyboard.type("not today")
    await other.keyboard.press("Enter")
    await expect(other.get_by_role("status")).to_contain_text("Rejected")
    result = await agent.run_call(session, sandbox, "no", "Bash", INSTALL)
    assert "not today" in result.outcome.detail


async def test_a_call_whose_session_ends_is_void_on_the_page(console, agent):
    session = await agent.create_session("tester")
    sandbox = (await agent.create_sandbox(session)).sandbox_id
    parked = await agent.run_call(session, sandbox, "gone", "Bash", INSTALL)
    page = await console.page(f"/reviews/{parked.verdict.review_id}")
    await expect(page.get_by_role("button", name="Approve")).to_be_visible()
    await agent.close_session(session)
    await expect(page.locator("#decide")).to_contain_text("It is void")
    await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
