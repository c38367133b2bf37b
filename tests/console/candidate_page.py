"""What tests do with candidates on the screen Policies."""

import asyncio


async def offer(page, path):
    """Have a bundle judge the record again, up to the page that says what it found."""
    await page.set_input_files("#bundle", path)
    await page.get_by_role("button", name="Replay").click()
    await page.wait_for_url("**/policies/candidate")


async def answered(page, act, *, yes):
    """Do what asks back, and answer that; the question."""
    async with page.expect_event("dialog") as asking:
        acting = asyncio.ensure_future(act)
        asked = await asking.value
        question = asked.message
        await (asked.accept() if yes else asked.dismiss())
        await acting
    return question
