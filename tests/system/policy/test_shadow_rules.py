"""G30: a rule that the site put in shadow decides nothing in a real daemon; what it would change is counted."""

import pytest

from opensafe.model.decision import Action
from tests.harness.daemon import Daemon
from tests.harness.policy import site_bundle

RULE = "tool.read.history.block"


@pytest.fixture
def shadowing(tmp_path):
    """A daemon whose bundle has RULE in shadow. Its self-test can't ask for that rule any more."""
    bundle, key = site_bundle(tmp_path, change=lambda data: data["shadow"].update({RULE: True}), without=RULE)
    daemon = Daemon(bundle=bundle, key=key).start()
    yield daemon
    assert daemon.stop() == 0
    assert daemon.remove() == []


async def test_a_rule_in_shadow_is_counted_and_decides_nothing(shadowing):
    async with shadowing.client() as agent, shadowing.client("reviewer") as reviewer:
        session = await agent.create_session("tester")
        shadowed = await agent.decide(session, "Read", {"path": "/workspace/.bash_history"})
        twin = await agent.decide(session, "Read", {"path": "/workspace/README.md"})
        both = await agent.decide(session, "Read", {"path": "/root/.bash_history"})
        assert [shadowed.action, twin.action, both.action] == [Action.ALLOW, Action.ALLOW, Action.BLOCK]
        report = await reviewer.get_shadow()
        (rule,) = report.rules
        assert report.candidate is None
        assert (rule.id, rule.hits, rule.would_change) == (RULE, 2, 1)
        explained = await agent.explain(shadowed.decision_id)
        (hit,) = explained.decision.shadow
        assert (hit.id, hit.action) == (RULE, Action.BLOCK)
        assert explained.notes_of(hit)[0].file == "opensafe/read/read.rego"
