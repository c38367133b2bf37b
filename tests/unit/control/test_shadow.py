"""A candidate that is slow, stuck or broken delays and fails nothing: what it can't look at is dropped and counted."""

import asyncio
import os
import threading

import msgspec
import pytest

from opensafe.audit.log import AuditLog
from opensafe.control import shadow
from opensafe.errors import BundleRefused, EvaluationFailed, LimitExceeded
from opensafe.model.calls import Principal
from opensafe.model.decision import Action, Decision, Grant, RuleHit, Severity
from opensafe.model.facts import ClassTables
from opensafe.model.records import Bundle, DecisionRecord
from opensafe.normalize.tools import DEFAULT_REGISTRY
from opensafe.policy.manifest import Bundle as LoadedBundle
from opensafe.policy.reload import Loaded
from tests.harness.policy import question

REVIEWER = Principal(name="reviewer", roles=("reviewer",))
BUNDLE = LoadedBundle(
    revision="2-000000000000", digest="d", wasm=b"", data=b"", tables=ClassTables(), entrypoints=(), vectors=()
)


def decision(number, hits=()):
    return DecisionRecord(
        time_us=number, decision_id=f"dec-{number}", purpose="query", principal="agent", session_id="s",
        call_id="", sandbox_id="", exec_id="", bundles={"opensafe": Bundle(revision="1", digest="d")},
        path="opensafe/gate/bash", input=question(name=f"dec-{number}", arguments={"command": "ls"}),
        result=Decision(
            action=Action.ALLOW, rules=(), grant=Grant(), id=f"dec-{number}", data_version="1", shadow=hits
        ),
        subject="", metrics={}, trace_id="", span_id="",
    )  # fmt: skip


class Candidate:
    """An engine that says `action` once it may go on, or fails."""

    revision = BUNDLE.revision
    tables, registry = ClassTables(), DEFAULT_REGISTRY

    def __init__(self, action=None):
        self.action = action
        self.may_go_on = threading.Event()
        self.asked = threading.Event()
        self.closed = False

    def evaluate(self, _entrypoint, asked):
        self.asked.set()
        self.may_go_on.wait()
        if self.action is None:
            raise EvaluationFailed("it ran away")
        return Decision(action=self.action, rules=(), grant=Grant(), id=asked.id, data_version=self.revision)

    def close(self):
        self.closed = True


class Stage:
    """A log, and a shadow that reads it."""

    def __init__(self, path, candidate):
        path.touch()
        self.path = path
        self.candidate = candidate
        self.log = AuditLog(os.open(path, os.O_WRONLY | os.O_APPEND), (path,), lambda *_: None)
        self.shadow = shadow.Shadow(self.log, self._load)

    async def _load(self, content):
        if content != b"bundle":
            raise BundleRefused("no bundle")
        return Loaded(bundle=BUNDLE, engine=self.candidate, quick=True)

    async def start(self, pieces=(b"bun", b"dle")):
        async def arriving():
            for piece in pieces:
                yield piece

        return await self.shadow.start(REVIEWER, arriving())

    async def report(self, done):
        """The candidate's counts once they are `done`."""
        async with asyncio.timeout(30):
            while not done(self.shadow.report(REVIEWER)):  # noqa: ASYNC110 - counts tell nobody that they change
                await asyncio.sleep(0.01)
        return self.shadow.report(REVIEWER)


@pytest.fixture
async def stage_of(tmp_path):
    stages, tasks = [], []

    async def make(candidate):
        stage = Stage(tmp_path / "segment-000000.jsonl", candidate)
        await stage.log.open()
        stages.append(stage)
        tasks.append(asyncio.create_task(stage.shadow.watch()))
        await asyncio.sleep(0)  # it notes the log's end as its task begins
        return stage

    yield make
    for stage, task in zip(stages, tasks, strict=True):
        stage.candidate.may_go_on.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await stage.shadow.close()
        await stage.log.close()
        assert stage.candidate.closed or stage.shadow.report(REVIEWER).candidate is None


async def test_a_stuck_candidate_delays_nobody_and_drops_with_a_count(stage_of, monkeypatch):
    monkeypatch.setattr(shadow, "BACKLOG", 3)
    stage = await stage_of(Candidate(Action.ALLOW))
    await stage.start()
    await stage.log.append(decision(0))
    await asyncio.to_thread(stage.candidate.asked.wait)
    for number in range(1, 21):  # each is durable while the candidate still sits on the first
        await stage.log.append(decision(number))
    assert stage.shadow.report(REVIEWER).candidate.evaluated == 0
    stage.candidate.may_go_on.set()
    found = (await stage.report(lambda now: now.candidate.evaluated + now.candidate.dropped == 21)).candidate
    assert found.dropped >= 15
    assert found.evaluated == found.same == 21 - found.dropped


async def test_a_candidate_without_a_verdict_counts_as_a_block(stage_of):
    stage = await stage_of(Candidate())
    stage.candidate.may_go_on.set()
    await stage.start()
    await stage.log.append(decision(1))
    found = await stage.report(lambda now: now.candidate.evaluated == 1)
    assert (found.candidate.no_verdict, found.candidate.transitions) == (1, {"allow>block": 1})
    assert found.samples[0].rules[0].id == "default.deny"


async def test_differences_are_on_record_when_it_ends(stage_of):
    stage = await stage_of(Candidate(Action.BLOCK))
    stage.candidate.may_go_on.set()
    await stage.start()
    for number in range(5):
        await stage.log.append(decision(number))
    await stage.report(lambda now: now.candidate.differed == 5)
    await stage.shadow.stop(REVIEWER)
    await stage.shadow._flush()
    kinds = [msgspec.json.decode(line)["kind"] for line in stage.path.read_bytes().splitlines()]
    assert sorted(kinds) == sorted(["candidate"] * 2 + ["decision"] * 5 + ["shadow"] * 5)


async def test_rules_in_shadow_are_counted_without_a_candidate(stage_of):
    stage = await stage_of(Candidate())
    hits = [
        RuleHit(id="a.deny", severity=Severity.LOW, action=action, reason="because")
        for action in (Action.BLOCK, Action.BLOCK, Action.ALLOW)
    ]
    await stage.log.append(decision(1))
    await stage.log.append(decision(2, hits=(hits[0], hits[1])))
    await stage.log.append(decision(3, hits=(hits[2],)))
    found = await stage.report(lambda now: now.decisions == 3)
    (rule,) = found.rules
    assert (rule.hits, rule.would_change, rule.last_decision_id) == (2, 1, "dec-3")


async def test_a_bundle_is_refused_when_it_is_none_or_too_large(stage_of, monkeypatch):
    stage = await stage_of(Candidate(Action.ALLOW))
    with pytest.raises(BundleRefused):
        await stage.start([b"something else"])
    monkeypatch.setattr(shadow, "_BUNDLE_MAX", 4)
    with pytest.raises(LimitExceeded, match="too large"):
        await stage.start()
    monkeypatch.setattr(shadow, "_ARRIVAL_S", 0.0)
    with pytest.raises(LimitExceeded, match="in time"):
        await stage.shadow.start(REVIEWER, _never())
    assert stage.shadow.report(REVIEWER).candidate is None


async def _never():
    await asyncio.Event().wait()
    yield b""
