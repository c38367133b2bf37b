"""The screen Audit: the record searched and opened, proofs, verification and evidence."""

import json
import re
import subprocess
import sys
import tarfile

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.harness.audit import signed
from tests.harness.browser import axe, shot

HOSTILE = "<img src=x onerror=alert(1)>\u202e\x1b[31m"


@pytest.fixture(scope="module")
def settings():
    return {"audit": "checkpoint_s = 1"}


@pytest_asyncio.fixture(loop_scope="module")
async def done(agent, session, sandbox):
    """A session with an allowed call, a blocked one and one with a hostile text."""
    await agent.run_call(session, sandbox, "good", "Bash", {"command": "echo needle"})
    await agent.run_call(session, sandbox, "bad", "Read", {"path": "/etc/shadow"})
    await agent.run_call(session, sandbox, "hostile", "Read", {"path": f"/workspace/{HOSTILE}"})
    return session


def verified(*words):
    """`opensafe audit verify`, which needs no daemon."""
    return subprocess.run(
        [sys.executable, "-m", "opensafe.cli", "audit", "verify", *words], capture_output=True, text=True
    )


def entry(page, text):
    return page.locator(".entry", has_text=text).first


async def test_what_was_done_is_found_by_each_field(console, done):
    page = await console.page("/audit")
    await expect(page.locator("#scope")).to_have_text("As an auditor you see all records.")
    await page.get_by_label("Text").fill("NEEDLE")
    await page.get_by_label("Verdict").select_option("allow")
    await page.get_by_role("button", name="Search").click()
    await expect(entry(page, "Bash(echo needle)")).to_be_visible()
    await expect(page.locator(".entry", has_text="/etc/shadow")).to_have_count(0)
    await expect(page.locator("#reach")).to_contain_text("Searched to the beginning of the log.")
    await page.goto(f"{console.address}/audit?rule=tool.read.secrets.block&session={done}")
    await expect(page.locator(".entry")).to_have_count(1)
    await expect(entry(page, "Read(/etc/shadow)")).to_contain_text("blocked")
    await page.goto(f"{console.address}/audit?kind=outcome&call=good&principal=agent&session={done}")
    await expect(page.locator(".entry")).to_have_count(1)
    await page.goto(f"{console.address}/audit?since=2100-01-01T00:00")
    await expect(page.locator("#records")).to_contain_text("No record matches")
    await page.goto(f"{console.address}/audit?until=2100-01-01T00:00&session={done}&kind=decision")
    await expect(entry(page, "Bash(echo needle)")).to_be_visible()


async def test_pages_go_back_to_the_beginning(console, agent, session, sandbox):
    for number in range(30):
        await agent.run_call(session, sandbox, f"many-{number}", "Bash", {"command": f"echo {number}"})
    page = await console.page(f"/audit?session={session}")
    seen = []
    while True:
        seen += await page.locator(".entry").evaluate_all("all => all.map(one => Number(one.id.slice(1)))")
        if not await page.get_by_role("link", name="Older records").count():
            break
        await page.get_by_role("link", name="Older records").click()
        await expect(page).to_have_url(re.compile("before="))
        await expect(page.locator(f"#r{seen[-1]}")).to_have_count(0)
    assert seen == sorted(set(seen), reverse=True)
    assert len(seen) > 60
    await expect(page.locator("#reach")).to_contain_text("Searched to the beginning of the log.")


async def test_a_record_opens_in_place_with_a_proof_that_holds_elsewhere(console, daemon, agent, done, tmp_path):
    page = await console.page(f"/audit?session={done}&action=block")
    await entry(page, "/etc/shadow").locator("summary").click()
    opened = entry(page, "/etc/shadow")
    await expect(opened.locator("pre")).to_contain_text('"tool": "Read"')
    assert len(await opened.locator("dd code").text_content()) == 64
    await signed(agent)
    await opened.get_by_role("link", name="Prove").click()
    await expect(opened.locator(".notice")).to_contain_text("stands in the log")
    await expect(opened.locator(".notice")).to_contain_text("given no key")
    async with page.expect_download() as waiting:
        await opened.get_by_role("link", name="Download the proof").click()
    proof = tmp_path / "proof.json"
    await (await waiting.value).save_as(proof)
    checked = verified("--proof", proof, "--key", daemon.state / "audit" / "key.pub", "--json")
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)["details"]["record"]["input"]["call"]["arguments"] == {"path": "/etc/shadow"}


async def test_hostile_text_stays_text(console, done):
    page = await console.page(f"/audit?session={done}&call=hostile")
    found = entry(page, "Read(")
    await expect(found).to_contain_text(r"<img src=x onerror=alert(1)>\u202e\x1b[31m")
    await found.locator("summary").click()
    await expect(found.locator("pre")).to_contain_text("<img src=x onerror=alert(1)>")
    assert await page.locator("img").count() == 0


async def test_the_keyboard_opens_a_record(console, done):
    page = await console.page(f"/audit?session={done}&action=block")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page.locator(".entry[open] pre")).to_contain_text("/etc/shadow")


async def test_verify_now_says_what_was_verified(console, done):
    page = await console.page("/audit")
    await page.get_by_role("button", name="Verify now").click()
    await expect(page.locator("#verified .notice")).to_have_text("Verified: no finding.")
    records = await page.locator("#verified dd").first.text_content()
    assert int(records) > 5


async def test_evidence_is_a_download_that_verifies_elsewhere(console, daemon, agent, done, tmp_path):
    page = await console.page(f"/audit?session={done}")
    await signed(agent)
    async with page.expect_download() as waiting:
        await page.get_by_role("button", name="Export").click()
    download = await waiting.value
    assert download.suggested_filename.startswith(f"opensafe-evidence-{done}-")
    bundle = tmp_path / "evidence.tar.gz"
    await download.save_as(bundle)
    assert tarfile.is_tarfile(bundle)
    checked = verified("--evidence", bundle, "--key", daemon.state / "audit" / "key.pub")
    assert checked.returncode == 0, checked.stdout + checked.stderr


async def test_who_is_no_auditor_sees_their_own_and_is_told(console, people, done):
    page = await console.page(f"/audit?session={done}", principal="other")
    await expect(page.locator("#scope")).to_contain_text("the records of your own sessions, and no others")
    await expect(page.locator(".entry")).to_have_count(0)
    await page.get_by_role("button", name="Verify now").click()
    await expect(page.locator("#verified [role=alert]")).to_contain_text("auditor")
    await page.get_by_role("button", name="Export").click()
    await expect(page.get_by_role("alert")).to_contain_text("auditor")
    await page.goto(f"{console.address}/audit/records/0")
    await expect(page.get_by_role("alert")).to_contain_text("not yours to see")
    faults = await people.take()
    assert len(faults) == 2
    page = await console.page(f"/audit?session={done}", principal="agent")
    await expect(entry(page, "/etc/shadow")).to_be_visible()


@pytest.mark.parametrize("query", ["since=tomorrow", f"text={'x' * 201}"])
async def test_what_can_not_be_searched_for_is_said(console, people, query):
    page = await console.page(f"/audit?{query}")
    await expect(page.get_by_role("alert")).to_be_visible()
    assert len(await people.take()) == 1


@pytest.mark.parametrize("language", ["en", "ja", "es"])
@pytest.mark.parametrize(("narrow", "dark"), [(False, False), (True, True)])
async def test_everybody_can_use_it(console, done, language, narrow, dark):
    page = await console.page(f"/audit?session={done}", narrow=narrow, dark=dark, language=language)
    await entry(page, "/etc/shadow").locator("summary").click()
    await expect(page.locator(".entry[open] pre")).to_be_visible()
    assert await axe(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if language == "en":
        await shot(page, f"audit-{'narrow-dark' if narrow else 'wide-light'}", whole=True)
