"""An approval counts on the bundle it was given on, and on no other: the judge asked again, with another engine."""

import os
import time

import pytest

from opensafe.audit.log import AuditLog
from opensafe.control.history import History
from opensafe.control.judge import Ask, Judge
from opensafe.model.calls import Principal
from opensafe.model.decision import Action
from opensafe.model.policy_input import ApprovalInput, SandboxInput
from opensafe.model.records import Bundle, SessionRecord
from opensafe.normalize.tools import DEFAULT_REGISTRY
from opensafe.policy.bundle import load
from opensafe.policy.engine import Engine
from opensafe.state.store import Store
from opensafe.telemetry.spans import Tracing
from tests.harness.policy import TRUSTED, site_bundle

SESSION = "ses-00000000000000000001"
ASKER = Principal(name="agent", roles=("developer",))


@pytest.fixture
async def place(tmp_path):
    """A log with its index and an open session."""
    path = tmp_path / "segment"
    store = Store(tmp_path / "index.sqlite")
    log = AuditLog(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), (path,), store.fold)
    await log.open()
    await log.append(SessionRecord(time_us=1, session_id=SESSION, principal=ASKER.name, state="open", agent="a"))
    tracing = Tracing.configured("", tmp_path, 1 << 20, "0")
    yield log, store, tracing
    await log.close()
    tracing.close()
    store.close()


def judge_of(place, bundle):
    log, store, tracing = place
    loaded = load(bundle, trusted=TRUSTED)
    engine = Engine(loaded, deadline_ms=1000)
    named = Bundle(revision=loaded.revision, digest=loaded.digest)
    return engine, Judge(engine, named, log, History(store), tracing, 60, 60)


async def ask(judge, store, approval=None):
    call = DEFAULT_REGISTRY.validate("c1", "Bash", b'{"command": "npm install"}', 1 << 20)
    return await judge.judge(
        Ask(
            purpose="call",
            principal=ASKER,
            session=store.session(SESSION),
            call=call,
            sandbox=SandboxInput(id="sb-00000000000000000001"),
            approval=approval,
            arrived_ns=time.monotonic_ns(),
        )
    )


async def test_G28_another_revision_voids_an_approval(place, tmp_path):
    store = place[1]
    old, _ = site_bundle(tmp_path)
    new, _ = site_bundle(tmp_path, number=2)
    first_engine, first = judge_of(place, old)
    second_engine, second = judge_of(place, new)
    parked = await ask(first, store)
    assert parked.action is Action.REVIEW
    review = store.review(parked.verdict.review_id)
    approval = ApprovalInput(id=review.review_id, digest=review.digest, revision=review.revision, approver="reviewer")
    assert (await ask(second, store, approval)).action is Action.REVIEW
    assert (await ask(first, store, approval)).action is Action.ALLOW
    assert store.session(SESSION).usage.calls == 1, "an approved call counts once"
    first_engine.close()
    second_engine.close()
