"""Records found by what they say, and read on from one of them: also those of an earlier life of the daemon."""

import asyncio
import json

import pytest

from opensafe.audit.segment import segment_paths
from opensafe.client import Client
from opensafe.errors import InvalidArgument
from opensafe.model.canonical import leaf_hash
from opensafe.model.decision import Action

pytestmark = [pytest.mark.root, pytest.mark.runsc]

SETTINGS = {"audit": f"segment_bytes = {1 << 20}"}
LONG = "echo " + "a" * 50_000


async def judge(client: Client, commands, agent="tester"):
    """A session in which these were judged."""
    session = await client.create_session(agent)
    for command in commands:
        await client.decide(session, "Bash", {"command": command})
    await client.close_session(session)
    return session


async def every(client, **wanted):
    """All pages."""
    found, before = [], 0
    while True:
        page = await client.search_audit(before_index=before, **wanted)
        found += page.records
        if not (before := page.next_before):
            return found


async def test_records_of_the_life_before_are_found_and_read_on_without_gap(own_daemon):
    daemon = own_daemon(**SETTINGS)
    async with daemon.client() as agent, daemon.client("other") as other, daemon.client("reviewer") as auditor:
        first = await judge(agent, ["echo needle", "curl evil.example.com", "echo Ärger"])
        foreign = await judge(other, ["echo Needle"])
        filling = await agent.create_session("filler")
        while len(segment_paths(daemon.state)) < 3:
            await asyncio.gather(*(agent.decide(filling, "Bash", {"command": LONG}) for _ in range(8)))
        seen = (await auditor.search_audit(page_size=1)).records[0].index
    assert daemon.stop() == 0
    daemon.start()

    async with daemon.client() as agent, daemon.client("other") as other, daemon.client("reviewer") as auditor:
        second = await judge(agent, ["echo NEEDLE"])
        log = {record.index: record for record in await every(auditor, page_size=500)}
        assert [*log] == [*range(len(log))][::-1]
        assert all(record.leaf == leaf_hash(record.line) for record in log.values())

        found = [json.loads(one.line) for one in await every(auditor, text="needle", kinds=["decision"], page_size=1)]
        assert [one["session_id"] for one in found] == [second, foreign, first]
        assert {json.loads(one.line)["session_id"] for one in await every(agent, text="needle")} == {first, second}
        assert {json.loads(one.line)["session_id"] for one in await every(other)} == {foreign}
        assert await every(other, session_id=first) == []
        [blocked] = await every(agent, action=Action.BLOCK)
        assert "evil.example.com" in blocked.line.decode()
        rule = json.loads(blocked.line)["result"]["rules"][0]["id"]
        assert await every(agent, rule=rule) == await every(agent, rule=rule.rpartition(".")[0]) == [blocked]
        assert await every(agent, rule=rule[:-1]) == []
        assert len(await every(agent, text="ECHO äRGER")) == 1
        assert {json.loads(one.line)["session_id"] for one in await every(auditor, principal="other")} == {foreign}
        opened = json.loads((await every(agent, session_id=second, kinds=["session"]))[-1].line)["time_us"]
        later = await every(agent, since_us=opened)
        assert {json.loads(one.line)["session_id"] for one in later} == {second}
        assert {json.loads(one.line)["session_id"] for one in await every(agent, until_us=opened)} == {first, filling}

        # On from a record of the life before, over the records of this one, to one that is yet to come.
        tail = auditor.tail_audit(from_index=seen - 20, follow=True)
        read = [await anext(tail) for _ in range(len(log) - seen + 20)]
        third = asyncio.create_task(judge(agent, ["echo three"]))
        while json.loads((await anext(tail)).line).get("session_id") != await third:
            pass
        await tail.aclose()
        assert [one.index for one in read] == list(range(seen - 20, len(log)))
        assert all(one == log[one.index] for one in read)
        ended = [one async for one in auditor.tail_audit(from_index=0)]
        assert [one.index for one in ended][: len(log)] == list(range(len(log)))
        assert {
            json.loads(one.line)["session_id"] for one in [one async for one in other.tail_audit(from_index=0)]
        } == {foreign}


@pytest.mark.parametrize(
    "wanted",
    [
        {"kinds": ["decision", "decisions"]},
        {"text": "a" * 201},
        {"page_size": 501},
        {"page_size": -1},
        {"before_index": -1},
        {"since_us": -1},
        {"until_us": -1},
    ],
    ids=lambda wanted: next(iter(wanted)),
)
async def test_a_malformed_search_is_refused(agent, wanted):
    with pytest.raises(InvalidArgument):
        await agent.search_audit(**wanted)
    assert (await agent.search_audit(text="a" * 200, page_size=500)).next_before == 0


async def test_a_record_beyond_the_next_is_refused(daemon, reviewer):
    size = (await reviewer.status()).audit_size
    for index in (-1, size + 1000):
        with pytest.raises(InvalidArgument, match="no such record"):
            [one async for one in reviewer.tail_audit(from_index=index)]
    assert [one async for one in reviewer.tail_audit(from_index=(await reviewer.status()).audit_size)] == []


async def test_many_searches_at_once_all_answer(agent, reviewer, session):
    await asyncio.gather(*(agent.decide(session, "Bash", {"command": f"echo {n}"}) for n in range(20)))
    pages = await asyncio.gather(*(one.search_audit(page_size=5) for one in (agent, reviewer) * 50))
    assert all(len(page.records) == 5 for page in pages)
