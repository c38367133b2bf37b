"""Bundles that are put in force from the screen Policies, and those that are not."""

import hashlib

import pytest
from playwright.async_api import expect

from opensafe.policy import sign
from tests.console.candidate_page import answered, offer
from tests.harness.policy import KEY, site_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """What is in force first, and its key. It lies in a place of its own."""
    return site_bundle(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def settings(bundle):
    return {"bundle": bundle[0], "key": bundle[1]}


@pytest.fixture
def newer(bundle, tmp_path):
    """Files with the same content under a number so much higher than that in force."""
    made = bundle[0].read_bytes()

    async def make(agent, by=1):
        number = (await agent.status()).bundle_number + by
        path = tmp_path / f"{number}.tar.gz"
        path.write_bytes(sign.sign(made, KEY, number))
        return path, number

    return make


async def test_an_operator_puts_in_force_what_was_shown(console, agent, newer):
    path, number = await newer(agent)
    page = await console.page("/policies", principal="operator")
    await offer(page, path)
    assert str(number) in await answered(page, page.keyboard.press("x"), yes=True)
    await expect(page.get_by_text("Every call is judged by it now")).to_be_visible()
    status = await agent.status()
    assert (status.bundle_number, status.bundle_digest) == (number, hashlib.sha256(path.read_bytes()).hexdigest())
    await expect(page.get_by_text("This bundle is in force.")).to_be_visible()
    await expect(page.get_by_role("button", name="Put in force")).to_have_count(0)
    seen = await console.page("/policies")
    await expect(seen.locator("#history tbody tr").first).to_contain_text(f"{number}-")


async def test_what_is_in_force_changes_on_pages_that_are_open(console, agent, newer):
    seen = await console.page("/policies")
    path, number = await newer(agent)
    page = await console.page("/policies", principal="operator")
    await offer(page, path)
    assert str(number) in await answered(page, page.get_by_role("button", name="Put in force").click(), yes=True)
    await expect(seen.locator("#force")).to_contain_text(f"{number}-")
    await expect(seen.locator("#history tbody tr").first).to_contain_text(f"{number}-")


async def test_whoever_says_no_changes_nothing(console, agent, newer):
    path, number = await newer(agent)
    page = await console.page("/policies", principal="operator")
    await offer(page, path)
    assert str(number) in await answered(page, page.keyboard.press("x"), yes=False)
    await expect(page.get_by_role("button", name="Put in force")).to_be_enabled()
    assert (await agent.status()).bundle_number == number - 1


async def test_a_reviewer_is_told_what_an_operator_types_and_can_not(console, agent, newer):
    path, number = await newer(agent)
    page = await console.page("/policies", principal="second")
    await offer(page, path)
    await expect(page.get_by_role("button", name="Put in force")).to_have_count(0)
    await expect(page.locator("pre")).to_have_text(f"opensafe policy activate {path.name}")
    fields = {
        "csrf": await page.locator("input[name=csrf]").first.input_value(),
        "digest": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    answer = await page.request.post(f"{console.address}/policies/candidate/activate", form=fields)
    assert (answer.status, "operator" in await answer.text()) == (403, True)
    assert (await agent.status()).bundle_number == number - 1


async def test_an_older_number_is_signed_again_to_go_back(console, agent, newer):
    path, number = await newer(agent, by=0)
    page = await console.page("/policies", principal="operator")
    await expect(page.locator("pre")).to_have_text(
        f"opensafe policy sign old.bundle.tar.gz --key policy.key --number {number + 1}"
    )
    older = path.with_name("older.tar.gz")
    older.write_bytes(sign.sign(path.read_bytes(), KEY, 1))
    await offer(page, older)
    await expect(page.locator("main")).to_contain_text(f"not higher than {number}, which is in force")
    await expect(page.locator("pre")).to_have_text(
        f"opensafe policy sign older.tar.gz --key policy.key --number {number + 1}"
    )
    await expect(page.get_by_role("button", name="Put in force")).to_have_count(0)


async def test_what_the_daemon_refuses_is_told_and_changes_nothing(console, agent, newer):
    """The page offers it, since it looks right; meanwhile another one of that number came."""
    path, number = await newer(agent)
    page = await console.page("/policies", principal="operator")
    await offer(page, path)
    other, _ = await newer(agent, by=2)
    race = await console.page("/policies", principal="operator", new=True)
    await offer(race, other)
    await answered(race, race.get_by_role("button", name="Put in force").click(), yes=True)
    await expect(race.get_by_text("Every call is judged by it now")).to_be_visible()
    await answered(page, page.get_by_role("button", name="Put in force").click(), yes=True)
    await expect(page.get_by_role("alert")).to_contain_text("number")
    assert (await agent.status()).bundle_number == number + 1
    seen = await console.page("/policies")
    await expect(seen.locator("#force").get_by_role("alert")).to_contain_text("What lies in its place was refused:")
    await expect(seen.locator("#history tbody tr").first).to_contain_text("Refused")
