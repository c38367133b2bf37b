"""`opensafe trace diff` of the demo under one bundle and under a stricter one: the changed verdicts, all, and alone."""

import asyncio
import json

import pytest

from opensafe.model.decision import Action
from opensafe.proof.private import demo_files
from opensafe.proof.seed import SEED, STEPS
from tests.harness.daemon import running
from tests.harness.policy import site_bundle

pytestmark = [pytest.mark.root, pytest.mark.runsc]


def _stricter(data):
    """At this site the README is a secret, and the sources are what its continuous integration runs."""
    data["paths"]["secret"].append("**/README.md")
    data["paths"]["ci"].append("/workspace/src/")


async def _demo(agent):
    """The demo's session: actions by call id, and its trace."""
    session = await agent.create_session("demo-agent", "demo")
    place = session, (await agent.create_sandbox(session)).sandbox_id
    actions = {}
    for name in SEED:
        arguments = {"path": f"/workspace/{name}", "content": (demo_files() / name).read_text()}
        result = await agent.run_call(*place, f"seed-{name}", "Write", arguments)
        actions[f"seed-{name}"] = result.verdict.action
    for number, step in enumerate(STEPS, 1):
        result = await agent.run_call(*place, f"step-{number}", step.tool, step.arguments)
        actions[f"step-{number}"] = result.verdict.action
    await agent.close_session(session)
    return actions, result.verdict.trace_id


async def _both(daemon, active, stricter):
    """The demo, the stricter bundle put in place of the active one, and the demo again; with the new revision."""
    async with daemon.client() as agent:
        first = await _demo(agent)
        settled = agent.watch_bundle()
        await anext(settled)  # what was
        stricter.rename(active)
        end = await anext(settled)
        await settled.aclose()
        return first, await _demo(agent), end.revision


def test_the_demo_under_a_stricter_bundle_differs_by_exactly_the_changed_verdicts(opensafe, tmp_path):
    (tmp_path / "place").mkdir()
    active, key = site_bundle(tmp_path)
    active = active.rename(tmp_path / "place" / "policy.bundle.tar.gz")
    stricter, _ = site_bundle(tmp_path, number=2, change=_stricter)
    with running(bundle=active, key=key) as daemon:
        (before, first), (after, second), revision = asyncio.run(_both(daemon, active, stricter))
        assert daemon.stop() == 0  # which writes what is left of the traces
        page = tmp_path / "page.html"
        ended = opensafe("trace", "diff", first, second, "--json", "--state", daemon.state, "--html", page)
        daemon.start()
    assert ended.returncode == 1, ended.stderr
    found = json.loads(ended.stdout)

    assert [step.action for step in STEPS] == list(before.values())[len(SEED) :]
    told = {name: (before[name], after[name]) for name in before if before[name] is not after[name]}
    assert told == {"step-1": (Action.ALLOW, Action.BLOCK), "step-4": (Action.ALLOW, Action.REVIEW)}

    changed = {pair["a"]["call_id"]: pair for pair in found["details"]["calls"] if pair["changes"]}
    assert {
        name: tuple(pair[side]["verdicts"][-1]["action"] for side in "ab")
        for name, pair in changed.items()
        if "verdict" in pair["changes"]
    } == told
    # The demo's tests miss the source that was not written; they were allowed as before.
    assert {name: pair["changes"] for name, pair in changed.items() if name not in told} == {"step-6": ["exit code"]}
    assert found["summary"]["verdicts_changed"] == len(told)
    # The parked Write ended with its session: that is one execute_tool more.
    assert {
        place["operation"]: (place["a"], place["b"]) for place in found["details"]["places"] if place["a"] != place["b"]
    } == {
        "execute_tool Write": (4, 5),
        "file.write": (4, 3),
        "review.park": (0, 1),
        "review.wait": (0, 1),
        "file.read": (1, 0),
    }
    bundles = found["details"]["bundles"]
    assert (len(bundles["a"]), len(bundles["b"])) == (1, 1)
    assert bundles["b"] == [revision]
    text = page.read_text()
    assert all(name in text for name in changed)
    assert "step-5" not in text  # which is as it was
