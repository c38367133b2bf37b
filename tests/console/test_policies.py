"""The screen Policies before a real daemon: what is in force, coverage, a candidate's replay, shadow."""

import re

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from playwright.async_api import expect

from opensafe.policy import archive, sign
from opensafe.policy.manifest import ALLOWED, WASM
from tests.console.candidate_page import answered, offer
from tests.harness.browser import axe, shot
from tests.harness.policy import KEY, compile_bomb, repack, site_bundle

HOSTILE = "echo '<img src=x onerror=alert(1)>' \u202e"


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """Files by name: in force, the same under a higher number, one that knows no `echo`, a stranger's, and none."""
    directory = tmp_path_factory.mktemp("bundles")
    active, key = site_bundle(directory)
    stricter, _ = site_bundle(directory, number=3, change=lambda data: data["programs"]["ordinary"].pop("echo"))
    content = active.read_bytes()
    members = archive.unpack(content, ALLOWED)
    others = {
        "same": sign.sign(content, KEY, 2),
        "strangers": sign.sign(content, Ed25519PrivateKey.generate(), 2),
        "none": b"<script>alert(1)</script>",
        "bomb": repack({**members, WASM: compile_bomb()}),
    }
    for name, data in others.items():
        (directory / f"{name}.tar.gz").write_bytes(data)
    return {
        "active": active,
        "key": key,
        "stricter": stricter,
        **{name: directory / f"{name}.tar.gz" for name in others},
    }


@pytest.fixture(scope="module")
def settings(bundles):
    return {"bundle": bundles["active"], "key": bundles["key"]}


async def token(page):
    return await page.locator("input[name=csrf]").first.input_value()


async def test_what_is_in_force_is_that_of_the_daemon(console, agent):
    status = await agent.status()
    page = await console.page("/policies")
    told = page.locator("#force")
    for text in (status.bundle_revision, status.bundle_digest, status.bundle_key, status.bundle_path):
        await expect(told).to_contain_text(text)
    await expect(told).to_contain_text("the same revision")
    await expect(page.locator("#history tbody tr")).to_have_count(1)
    await expect(page.locator("#history")).to_contain_text("In force")
    assert await axe(page) == []


async def test_who_may_not_see_all_records_is_told_so(console):
    page = await console.page("/policies", principal="agent")
    await expect(page.locator("#history")).to_contain_text("they are for auditors")
    await expect(page.locator("#shadow")).to_contain_text("roles operator and reviewer")
    await expect(page.locator("#bundle")).to_have_count(0)


async def test_a_rule_that_fires_is_covered_without_a_reload(console, agent, session):
    page = await console.page("/policies?rules=never")
    rule = page.locator("#rules tbody tr").filter(has_text="tool.exec.miner.deny")
    await expect(rule).to_have_count(1)
    await agent.decide(session, "Bash", {"command": "xmrig"})
    await expect(rule).to_have_count(0)
    await page.goto(f"{console.address}/policies?rules=fired")
    await expect(rule.locator("td").nth(2)).to_have_text("1")
    listed = await page.locator("#rules .choice").all_inner_texts()
    fired, never, all_ = (int(re.sub(r"\D", "", text)) for text in listed)
    assert fired + never == all_ == len({note.id for note in (await agent.list_rules()).notes})


async def test_a_candidate_says_which_verdicts_would_be_other(console, agent, session, bundles):
    await agent.decide(session, "Bash", {"command": HOSTILE})
    await agent.decide(session, "Bash", {"command": "echo only"})
    page = await console.page("/policies")
    await offer(page, bundles["stricter"])
    row = page.locator("tr", has_text="onerror")
    await expect(row.locator(".badge")).to_have_text(["review", "blocked"])
    await expect(row).to_contain_text("<img src=x onerror=alert(1)>' \\u202e")
    other = page.locator("tr", has_text="echo only")
    await expect(other.locator(".badge")).to_have_text(["allowed", "blocked"])
    await expect(other).to_contain_text("default.deny")
    assert f"/sessions/{session}" in await row.locator("a").get_attribute("href")
    await expect(page.locator("main img")).to_have_count(0)
    assert await axe(page) == []
    await shot(page, "policies-candidate")


async def test_a_candidate_that_changes_nothing_says_so(console, agent, session, bundles):
    await agent.decide(session, "Bash", {"command": "echo one"})
    page = await console.page("/policies")
    await offer(page, bundles["same"])
    await expect(page.get_by_text("Every verdict stays as it was.")).to_be_visible()


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("name", "why"), [("none", "compression"), ("bomb", "ended by signal")])
async def test_what_is_no_bundle_harms_nobody(console, bundles, name, why):
    page = await console.page("/policies")
    page.set_default_timeout(300_000)  # a bomb takes what it may have
    await offer(page, bundles[name])
    await expect(page.get_by_role("alert")).to_contain_text(why)
    await expect(page.get_by_role("button", name="Put in force")).to_have_count(0)
    await page.goto(f"{console.address}/policies")
    await expect(page.locator("#force")).to_contain_text("the same revision")


async def test_a_key_that_is_not_trusted_is_told_before_anything_is_done(console, bundles):
    page = await console.page("/policies", principal="operator")
    await offer(page, bundles["strangers"])
    await expect(page.get_by_text("a key that the daemon does not trust")).to_be_visible()
    await expect(page.locator("pre")).to_have_text("opensafe policy sign strangers.tar.gz --key policy.key --number 2")
    await expect(page.get_by_role("button", name="Put in force")).to_have_count(0)
    await expect(page.get_by_role("button", name="Start in shadow")).to_have_count(0)


async def test_a_candidate_in_shadow_is_counted_live_and_stopped(console, agent, session, bundles):
    page = await console.page("/policies")
    await offer(page, bundles["stricter"])
    await page.keyboard.press("s")
    await page.wait_for_url("**/policies#shadow")
    shadow = page.locator("#shadow")
    await expect(shadow).to_contain_text("Begun by reviewer")
    await agent.decide(session, "Bash", {"command": "echo shadowed"})
    await expect(shadow.locator("tbody tr", has_text="default.deny").last).to_be_visible()
    await expect(shadow.locator("table", has_text="Holds").locator(".badge").first).to_have_text("allowed")
    assert await answered(page, shadow.get_by_role("button", name="Stop").click(), yes=True)
    await expect(shadow).to_contain_text("No candidate judges along.")


@pytest.mark.parametrize("path", ["candidate/activate", "candidate/shadow", "candidate/forget", "shadow/stop"])
async def test_a_form_of_no_page_of_ours_does_nothing(console, path):
    page = await console.page("/policies", principal="operator")
    answer = await page.request.post(f"{console.address}/policies/{path}", form={"csrf": "x", "digest": "x"})
    assert answer.status == 403


async def test_a_digest_that_was_not_shown_is_no_candidate(console):
    page = await console.page("/policies", principal="operator")
    fields = {"csrf": await token(page), "digest": "0" * 64}
    for path in ("activate", "shadow"):
        answer = await page.request.post(f"{console.address}/policies/candidate/{path}", form=fields)
        assert answer.status == 404


async def test_whoever_has_no_role_for_it_can_not_try_a_bundle(console, bundles):
    page = await console.page("/policies", principal="agent")
    sent = {"csrf": await token(page), "last": "1000"}
    file = {"name": "a.tar.gz", "mimeType": "application/gzip", "buffer": bundles["same"].read_bytes()}
    url = f"{console.address}/policies/candidate"
    refused = await page.request.post(url, multipart={**sent, "bundle": file})
    assert (refused.status, "none of the roles" in await refused.text()) == (403, True)
    other = await console.page("/policies")
    taken = await other.request.post(url, multipart={**sent, "csrf": await token(other), "bundle": file})
    assert (taken.status, taken.url) == (200, url)


async def test_a_file_that_is_too_large_is_not_taken(console):
    page = await console.page("/policies")
    file = {"name": "a.tar.gz", "mimeType": "application/gzip", "buffer": bytes(17 << 20)}
    sent = {"csrf": await token(page), "last": "1000", "bundle": file}
    answer = await page.request.post(f"{console.address}/policies/candidate", multipart=sent)
    assert answer.status == 413


@pytest.mark.parametrize(
    "how", [{"narrow": True}, {"dark": True, "language": "ja"}, {"narrow": True, "language": "es"}]
)
async def test_it_fits_and_all_can_use_it(console, how):
    page = await console.page("/policies?rules=all", **how)
    await expect(page.locator("#rules tbody tr").first).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert await axe(page) == []


async def test_it_is_shown_in_the_documentation(console):
    await shot(await console.page("/policies"), "policies")
