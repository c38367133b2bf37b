"""What a session did decides on what it may do next: pace, denials, secrets. Rules 49 and 58 to 60, by effect."""

import asyncio

import pytest

from opensafe.client import Stdout
from opensafe.model.decision import Action
from opensafe.model.outcome import OutcomeKind
from tests.harness.policy import site_bundle

FETCH = {"command": "curl -sS https://docs.python.org/3/ -o page.html"}


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """A site with data that may be read and must not leave, and with small windows."""

    def change(settings):
        settings["paths"]["sensitive"] = ["/workspace/customers/"]
        settings["ceilings"]["blocks_in_ten_minutes"] = 3
        settings["ceilings"]["calls_per_minute"] = 12

    bundle, key = site_bundle(tmp_path_factory.mktemp("bundle"), change=change)
    return {"bundle": bundle, "key": key}


async def deciding(agent, session, sandbox, call_id, arguments):
    verdict = (await agent.run_call(session, sandbox, call_id, "Bash", arguments)).verdict
    return verdict.action, [hit.id for hit in verdict.deciding()]


async def test_denials_put_a_session_into_quarantine(agent, session, sandbox, daemon):
    async def deny(number):
        assert (await agent.begin(session, f"bad-{number}", "Bash", {"command": "sudo ls"})).permit == ""

    for number in range(2):
        await deny(number)
    assert (await deciding(agent, session, sandbox, "below", {"command": "ls"}))[0] is Action.ALLOW
    await deny(2)
    before = daemon.starts()
    assert await deciding(agent, session, sandbox, "at", {"command": "ls"}) == (
        Action.REVIEW,
        ["session.denials.quarantine"],
    )
    assert daemon.starts() == before
    fresh = await agent.create_session("tester")
    assert (await agent.begin(fresh, "one", "Bash", {"command": "ls"})).permit
    await agent.close_session(fresh)


async def test_a_session_has_a_pace(agent, session):
    permits = await asyncio.gather(*(agent.begin(session, f"c-{n}", "Bash", {"command": "ls"}) for n in range(15)))
    assert sum(bool(permit.permit) for permit in permits) == 12
    denied = next(permit.verdict for permit in permits if not permit.permit)
    assert [hit.id for hit in denied.deciding()] == ["session.rate.limit"]


async def test_a_secret_read_then_encoded_does_not_leave(agent, session, sandbox):
    async def fetch(call_id):
        return await deciding(agent, session, sandbox, call_id, FETCH)

    clean = await fetch("clean")
    assert "egress.taint.review" not in clean[1]
    encode = {"command": "base64 README > README.b64"}
    await agent.run_call(session, sandbox, "encode-early", "Bash", encode)
    assert await fetch("encoded-before") == clean, "what is encoded before a secret was read is no secret"
    twin = await agent.run_call(session, sandbox, "twin", "Bash", {"command": "cat customers.md; true"})
    assert twin.outcome.kind is OutcomeKind.EXITED
    assert await fetch("after-twin") == clean
    read = await agent.run_call(session, sandbox, "read", "Bash", {"command": "cat customers/ada.csv; true"})
    assert read.outcome.kind is OutcomeKind.EXITED
    assert "egress.taint.review" in (await fetch("after-read"))[1]
    await agent.run_call(session, sandbox, "encode", "Bash", encode)
    assert await fetch("after-encoding") == (Action.BLOCK, ["session.sequence.exfil"])

    second = await agent.create_session("tester")
    assert await deciding(agent, second, sandbox, "inherits", FETCH) == (Action.BLOCK, ["session.sequence.exfil"])
    await agent.close_session(second)
    third = await agent.create_session("tester")
    other = (await agent.create_sandbox(third)).sandbox_id
    assert await deciding(agent, third, other, "clean", FETCH) == clean
    await agent.close_session(third)


async def test_a_call_that_still_runs_has_read_its_secret(agent, session, sandbox):
    running = agent.call(session, sandbox, "reads", "Bash", {"command": "cat customers/ada.csv; echo read; sleep 600"})
    async for event in running:
        if isinstance(event, Stdout):
            break
    assert "egress.taint.review" in (await deciding(agent, session, sandbox, "meanwhile", FETCH))[1]
    await running.aclose()


async def test_a_blocked_read_taints_nothing(agent, session, sandbox):
    clean = await deciding(agent, session, sandbox, "clean", FETCH)
    blocked = await agent.run_call(session, sandbox, "blocked", "Bash", {"command": "sudo cat customers/ada.csv"})
    assert blocked.outcome.kind is OutcomeKind.BLOCKED
    assert await deciding(agent, session, sandbox, "after", FETCH) == clean
