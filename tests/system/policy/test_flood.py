"""A client that is refused again and again can't grow the log, and nothing it did goes unsaid."""

import asyncio
import json

from opensafe import errors
from tests.harness.audit import records


async def test_refusals_beyond_the_pace_are_counted(own_daemon):
    daemon = own_daemon(caps="refusals_per_s = 5")

    async def refused(client, number):
        try:
            await client.run_call("ses-no", "sb-no", f"call-{number}", "Bash", {"command": "ls"})
        except errors.RequestError as error:
            return type(error)
        raise AssertionError("it was taken")

    async with daemon.client() as agent, daemon.client("other") as other, daemon.client("reviewer") as auditor:
        kinds = await asyncio.gather(*(refused(agent, number) for number in range(200)))
        assert kinds.count(errors.LimitExceeded) + kinds.count(errors.NotFound) == 200
        assert kinds.count(errors.LimitExceeded) >= 200 - 5 * 10  # ten seconds for it at the very most
        assert await refused(other, 0) is errors.NotFound, "the pace is each principal's own"
        async with asyncio.timeout(30):
            async for _ in auditor.tail_audit(0, follow=True):
                kept = [r for r in await records(auditor, 300) if r["kind"] == "refusal" and r["principal"] == "agent"]
                if sum(record["count"] for record in kept) == 200:
                    break
        assert len(kept) == kinds.count(errors.NotFound) + sum(record["count"] > 1 for record in kept)


async def test_the_pace_is_one_for_calls_questions_and_permits(own_daemon):
    daemon = own_daemon(caps="refusals_per_s = 2")
    ls = {"command": "ls"}
    async with daemon.client() as agent:
        asked = (
            *(agent.decide("ses-no", "Bash", ls) for _ in range(40)),
            *(agent.begin("ses-no", f"p-{number}", "Bash", ls) for number in range(40)),
            *(agent.run_call("ses-no", "sb-no", f"c-{number}", "Bash", ls) for number in range(40)),
        )
        ends = await asyncio.gather(*asked, return_exceptions=True)
    daemon.stop()
    lines = "".join(path.read_text() for path in daemon.state.glob("audit/*")).splitlines()
    refusals = [json.loads(line) for line in lines if '"kind":"refusal"' in line]
    one_by_one = sum(isinstance(end, errors.NotFound) for end in ends)
    assert one_by_one + sum(isinstance(end, errors.LimitExceeded) for end in ends) == 120
    assert one_by_one <= 2 * 20  # twenty seconds for it at the very most
    assert sum(record["count"] for record in refusals) == 120


async def test_what_was_counted_is_written_when_the_daemon_stops(own_daemon):
    daemon = own_daemon(caps="refusals_per_s = 1")
    async with daemon.client() as agent:
        for number in range(5):
            try:
                await agent.run_call("ses-no", "sb-no", f"call-{number}", "Bash", {"command": "ls"})
            except errors.RequestError:
                continue
    daemon.stop()
    lines = "".join(path.read_text() for path in daemon.state.glob("audit/*")).splitlines()
    refusals = [line for line in lines if '"kind":"refusal"' in line]
    assert sum(json.loads(line)["count"] for line in refusals) == 5
