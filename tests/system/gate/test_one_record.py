"""What is on record: each refusal once, and of executions exactly those that took place."""

import asyncio
import json

import pytest

from opensafe import errors
from opensafe.client import RunLimits, collect
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind

LS = {"command": "ls"}
CURL = {"command": "curl evil.example.com"}
INSTALL = {"command": "npm install"}
NOBODYS = "00000000000000000000"
OK = Outcome(kind=OutcomeKind.EXITED, exit_code=0)


@pytest.fixture(scope="module")
def settings():
    return {"staffed": True, "caps": "sandboxes = 2\nsessions_per_principal = 3\nrefusals_per_s = 1000"}


@pytest.fixture(scope="module")
def log(daemon):
    """Reads the log's verdicts, refusals and outcomes. Nothing that was answered is still to be written."""
    segment, kinds = daemon.state / "audit" / "segment-000000.jsonl", ("decision", "refusal", "outcome")

    def read(since=0):
        records = map(json.loads, segment.read_text().splitlines())
        return [record for record in records if record["kind"] in kinds][since:]

    return read


#: What is asked for by the agent with a session and a sandbox of its own, and the kind of the record that says no.
CALLS = {
    "policy": (lambda a, s, b: a.run_call(s, b, "n", "Bash", CURL), "decision"),
    "policy-for-a-reviewer": (lambda a, s, b: a.run_call(s, b, "n", "Bash", INSTALL), "decision"),
    "policy-of-a-file": (lambda a, s, b: a.files(s, b).write("/etc/passwd", b"x"), "decision"),
    "policy-of-a-sandbox": (lambda a, s, b: a.create_sandbox(s, template="dev"), "decision"),
    "policy-of-a-permit": (lambda a, s, b: a.begin(s, "n", "Bash", CURL), "decision"),
    "policy-of-a-question": (lambda a, s, b: a.decide(s, "Bash", CURL), "decision"),
    "unknown-tool": (lambda a, s, b: a.run_call(s, b, "n", "Shell", LS), "refusal"),
    "unknown-tool-of-a-permit": (lambda a, s, b: a.begin(s, "n", "Shell", LS), "refusal"),
    "schema": (lambda a, s, b: a.run_call(s, b, "n", "Bash", {"cmd": "ls"}), "refusal"),
    "schema-of-a-file": (lambda a, s, b: a.files(s, b).read_bytes("a\0b"), "refusal"),
    "call-id": (lambda a, s, b: a.run_call(s, b, "n o", "Bash", LS), "refusal"),
    "limits": (lambda a, s, b: a.run_call(s, b, "n", "Bash", LS, limits=RunLimits(wall_ms=1)), "refusal"),
    "user": (lambda a, s, b: a.run_call(s, b, "n", "Bash", LS | {"user": "none-such"}), "refusal"),
    "no-such-sandbox": (lambda a, s, b: a.run_call(s, f"sb-{NOBODYS}", "n", "Bash", LS), "refusal"),
    "no-such-permit": (lambda a, s, b: a.finish(s, f"permit-{NOBODYS}", OK), "refusal"),
    "cap-on-a-lease": (lambda a, s, b: a.renew_sandbox(b, ttl_s=10**9), "refusal"),
    "signal-to-no-call": (lambda a, s, b: a.signal_call(s, "none", 15), "refusal"),
    "role-of-a-reviewer": (lambda a, s, b: a.approve_review(f"rev-{NOBODYS}", "0" * 64), "refusal"),
    "role-of-an-operator": (lambda a, s, b: a.ban("other"), "refusal"),
    "role-for-shadow": (lambda a, s, b: a.stop_shadow(), "refusal"),
    "usage": (lambda a, s, b: a.report_usage(s, tokens=-1), "refusal"),
    "session": (lambda a, s, b: a.create_session("two\nlines"), "refusal"),
}  # fmt: skip


async def said_no(request):
    """How a request was refused: the error, or the verdict that is not allow."""
    try:
        answer = await request
    except (errors.RequestError, errors.Denied, errors.ReviewPending) as error:
        return type(error)
    verdict = getattr(answer, "verdict", answer)
    assert verdict.action is not Action.ALLOW, answer
    return verdict.action


@pytest.mark.parametrize("refused", CALLS)
async def test_G60_each_refusal_has_one_record(daemon, log, agent, session, sandbox, refused):
    request, kind = CALLS[refused]
    before, starts = len(log()), daemon.starts()
    await said_no(request(agent, session, sandbox))
    assert [record["kind"] for record in log(before)] == [kind]
    assert daemon.starts() == starts


async def test_G60_what_is_anothers_is_refused_with_one_record(daemon, log, session, sandbox):
    async with daemon.client("other") as other:
        own = await other.create_session("intruder")
        attempts = (
            lambda: other.run_call(own, sandbox, "n", "Bash", LS),
            lambda: other.run_call(session, sandbox, "n", "Bash", LS),
            lambda: other.create_sandbox(session),
            lambda: other.pause_sandbox(sandbox),
            lambda: other.resume_sandbox(sandbox),
            lambda: other.delete_sandbox(sandbox),
            lambda: other.signal_call(session, "n", 9),
            lambda: other.report_usage(session, tokens=1),
            lambda: other.close_session(session),
        )
        before = len(log())
        for attempt in attempts:
            assert await said_no(attempt()) is errors.NotFound
        found = [(record["kind"], record["principal"], record["reason"]) for record in log(before)]
        assert found == [("refusal", "other", "NOT_FOUND")] * len(attempts)
        await other.close_session(own)


async def test_G60_caps_and_bans_refuse_with_one_record_each(daemon, log, agent, session, sandbox):
    second = (await agent.create_sandbox(session)).sandbox_id
    sessions = [await agent.create_session("more") for _ in range(2)]
    before = len(log())
    for beyond in (agent.create_sandbox(session), agent.create_session("many")):
        assert await said_no(beyond) is errors.LimitExceeded
    assert [(r["kind"], r["request"]) for r in log(before)] == [
        ("refusal", "CreateSandbox"),
        ("refusal", "CreateSession"),
    ]
    await agent.delete_sandbox(second)
    async with daemon.client("operator") as operator:
        await operator.ban("agent", "tester", "leaks")
        try:
            before = len(log())
            assert await said_no(agent.run_call(session, sandbox, "banned", "Bash", LS)) is Action.BLOCK
            [record] = log(before)
        finally:
            await operator.unban("agent", "tester")
        assert "caller.ban.deny" in [hit["id"] for hit in record["result"]["rules"]]
    for one in sessions:
        await agent.close_session(one)


async def test_G59_what_ran_is_what_the_log_and_the_ledger_say_ran(daemon, log, agent, reviewer, session, sandbox):
    """Each program that runs leaves its mark in the guest, whatever the way it came; what must not run would, too."""
    before, entries = len(log()), len(daemon.ledger())

    def bash(call_id, more="", **options):
        return agent.call(session, sandbox, call_id, "Bash", {"command": f"echo {call_id} >> ran.txt{more}"}, **options)

    names = [f"run-{number}" for number in range(12)]
    await asyncio.gather(*(collect(bash(name), 0) for name in names))
    await collect(bash("run-3"), 0)  # a repeat answers and runs nothing
    await collect(bash("fails", "; exit 3"), 0)
    await collect(bash("killed", "; kill -9 $$"), 0)
    await collect(bash("cut", "; sleep 600", limits=RunLimits(wall_ms=300)), 0)
    async for _ in bash("behind", background=True):
        pass
    await collect(agent.attach(session, "behind"), 0)
    await collect(bash("blocked", "; curl evil.example.com"), 0)
    parked = await collect(bash("approved", "; npm install"), 0)
    await collect(bash("parked", "; npm install"), 0)
    [review] = [row for row in await reviewer.list_reviews() if row.review_id == parked.verdict.review_id]
    await reviewer.approve_review(review.review_id, review.digest)
    await collect(agent.attach(session, "approved"), 0)
    await agent.decide(session, "Bash", {"command": "echo asked >> ran.txt"})
    await agent.begin(session, "elsewhere", "Bash", {"command": "echo elsewhere >> ran.txt"})
    await said_no(agent.run_call(session, sandbox, "refused", "Bash", {"command": "echo refused >> ran.txt", "x": 1}))
    text = (await agent.run_call(session, sandbox, "look", "Bash", {"command": "cat ran.txt"})).stdout.decode()

    ran = {*names, "fails", "killed", "cut", "behind", "approved"}
    assert sorted(text.split()) == sorted(ran)
    decided = [
        record
        for record in log(before)
        if record["kind"] == "decision" and record["purpose"] == "call" and record["result"]["action"] == "allow"
    ]
    assert sorted(record["call_id"] for record in decided) == sorted(ran | {"look"})
    starts = [entry for entry in map(json.loads, daemon.ledger()[entries:]) if entry["kind"] == "start"]
    assert sorted(entry["exec_id"] for entry in starts) == sorted(record["exec_id"] for record in decided)
    ended = [record for record in log(before) if record["kind"] == "outcome" and record["call_id"] in ran | {"look"}]
    assert sorted(record["decision_id"] for record in ended) == sorted(record["decision_id"] for record in decided)
