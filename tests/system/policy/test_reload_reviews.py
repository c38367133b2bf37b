"""What a new bundle does to calls and permits that wait, and to approvals: void but on the very bundle. G28, PE-18."""

import asyncio
import contextlib
import json

import pytest

from opensafe import errors
from opensafe.model.decision import Action
from opensafe.model.outcome import OutcomeKind
from tests.harness.audit import records
from tests.harness.policy import site_bundle

# npm is not in the image: the marker is what shows that the line was run.
INSTALL = {"command": "npm install; echo ran"}


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """Bytes to put in place by name, and the key's file."""
    directory = tmp_path_factory.mktemp("bundles")
    first, key = site_bundle(directory)
    renumbered, _ = site_bundle(directory, number=2)
    stricter, _ = site_bundle(
        directory,
        number=3,
        change=lambda data: data["programs"]["denied"].update(npm="container"),
        without="tool.exec.package.install.review",
    )
    paths = {"first": first, "renumbered": renumbered, "stricter": stricter}
    return {**{name: path.read_bytes() for name, path in paths.items()}, "refused": b"no bundle", "key": key}


@pytest.fixture
async def site(contents, own_daemon, tmp_path):
    """A daemon on the first of them with a session, its sandbox and a reviewer; puts others in place."""
    place = tmp_path / "policy.bundle.tar.gz"
    place.write_bytes(contents["first"])
    daemon = own_daemon(bundle=place, key=contents["key"])
    async with daemon.client() as agent, daemon.client("reviewer") as reviewer:
        session = await agent.create_session("tester")
        sandbox = (await agent.create_sandbox(session)).sandbox_id

        async def reload(name):
            async with contextlib.aclosing(agent.watch_bundle()) as ends:
                await anext(ends)  # what was
                part = place.with_name("part")
                part.write_bytes(contents[name])
                part.rename(place)
                return await asyncio.wait_for(anext(ends), 10)

        yield Site(daemon, agent, reviewer, session, sandbox, reload)


class Site:
    def __init__(self, daemon, agent, reviewer, session, sandbox, reload):
        self.daemon, self.agent, self.reviewer = daemon, agent, reviewer
        self.session, self.sandbox, self.reload = session, sandbox, reload

    async def call(self, call_id="call"):
        return await self.agent.run_call(self.session, self.sandbox, call_id, "Bash", INSTALL)

    async def begin(self, call_id="permit"):
        return await self.agent.begin(self.session, call_id, "Bash", INSTALL)

    async def approve(self, review_id):
        return await self.reviewer.approve_review(review_id, (await self.reviewer.get_review(review_id)).digest)

    async def states(self, review_id):
        """What is on record of a review, in order."""
        kept = [record for record in await records(self.reviewer, 50) if record["kind"] == "review"]
        return [record["state"] for record in kept if record["review_id"] == review_id]


@pytest.mark.parametrize(
    ("bundle", "action", "states"),
    [("renumbered", Action.REVIEW, ["approved", "void"]), ("stricter", Action.BLOCK, ["approved"])],
)
async def test_an_approval_counts_for_nothing_on_another_bundle(site, bundle, action, states):
    parked = (await site.call()).verdict.review_id
    assert (await site.reload(bundle)).activated
    assert (await site.approve(parked)).action is action
    end = await site.call()
    assert end.outcome.kind is OutcomeKind.BLOCKED
    assert await site.states(parked) == states
    with pytest.raises(errors.Conflict):
        await site.approve(parked)
    assert site.daemon.starts() == 0


@pytest.mark.parametrize(("bundle", "activated"), [("first", True), ("refused", False)])
async def test_an_approval_counts_where_the_bundle_stays_in_force(site, bundle, activated):
    parked, permit = (await site.call()).verdict.review_id, (await site.begin()).verdict.review_id
    before = (await site.agent.status()).bundle_digest
    assert (await site.reload(bundle)).activated is activated
    assert (await site.agent.status()).bundle_digest == before
    assert (await site.approve(parked)).action is Action.ALLOW
    assert (await site.call()).stdout == b"ran\n"
    assert (await site.approve(permit)).action is Action.ALLOW
    assert (await site.begin()).permit
    assert await site.states(parked) == await site.states(permit) == ["approved"]


async def test_a_call_parked_after_the_reload_is_approved_on_the_new_bundle(site):
    old = (await site.call()).verdict.review_id
    await site.reload("renumbered")
    await site.approve(old)
    new = (await site.call("again")).verdict
    assert new.bundle_revision == (await site.agent.status()).bundle_revision
    assert (await site.approve(new.review_id)).action is Action.ALLOW
    assert (await site.call("again")).stdout == b"ran\n"
    assert site.daemon.starts() == 1


@pytest.mark.parametrize(
    ("bundle", "action", "states"),
    [("renumbered", Action.REVIEW, ["approved", "void"]), ("stricter", Action.BLOCK, ["approved"])],
)
@pytest.mark.parametrize("approved", ["before", "after"])
async def test_no_permit_comes_of_an_approval_given_on_another_bundle(site, bundle, action, states, approved):
    parked = (await site.begin()).verdict.review_id
    if approved == "before":
        assert (await site.approve(parked)).action is Action.ALLOW
    assert (await site.reload(bundle)).activated
    if approved == "after":
        assert (await site.approve(parked)).action is action
    end = await site.begin()
    assert end.permit == ""
    assert await site.states(parked) == states
    kept = [record for record in await records(site.reviewer, 50) if record["kind"] == "decision"]
    assert [record["permit"] for record in kept if record["purpose"] == "permit"] == [""] * (
        2 if approved == "before" else 1
    )
    assert json.dumps(kept).count('"permit-') == 0
