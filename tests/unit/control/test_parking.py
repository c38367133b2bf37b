"""A call that a reviewer must see is parked before anybody can decide on it, however long the disk takes."""

import asyncio
import os
import time
from types import SimpleNamespace
from typing import Any

from opensafe.audit.log import AuditLog
from opensafe.config import Caps
from opensafe.control.history import History
from opensafe.control.judge import Judge
from opensafe.control.live import Submission
from opensafe.control.refusals import Flow, Refusals
from opensafe.control.reviews import Reviews
from opensafe.control.sessions import Sessions
from opensafe.gate import Gate
from opensafe.model.calls import Principal
from opensafe.model.records import Bundle
from opensafe.policy.bundle import load
from opensafe.policy.engine import Engine
from opensafe.state.store import Store
from opensafe.telemetry.spans import Tracing
from tests.harness.policy import TRUSTED, site_bundle

ASKER = Principal(name="agent", roles=("developer",))
SANDBOX = SimpleNamespace(sandbox_id="sb-00000000000000000001", template="base")


class SlowLog(AuditLog):
    """The disk answers when it is told to."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.disk = asyncio.Event()
        self.disk.set()

    async def sync(self, written):
        await self.disk.wait()
        await super().sync(written)


async def test_a_review_can_be_decided_on_once_its_call_is_parked(tmp_path):
    path = tmp_path / "segment"
    store = Store(tmp_path / "index.sqlite")
    log = SlowLog(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), (path,), store.fold)
    await log.open()
    tracing, caps = Tracing.configured("", tmp_path, 1 << 20, "0"), Caps()
    loaded = load(site_bundle(tmp_path)[0], trusted=TRUSTED)
    sandboxes: Any = SimpleNamespace(require=lambda *_: SANDBOX)
    warden: Any = None  # nothing is started
    engine = Engine(loaded, deadline_ms=1000)
    judge = Judge(engine, Bundle(revision=loaded.revision, digest=loaded.digest), log, History(store), tracing, 60, 60)
    refusals = Refusals(log, caps.refusals_per_s)
    sessions, reviews = Sessions(log, store, refusals, tracing, caps), Reviews(log, store, caps)
    gate = Gate(
        judge,
        log,
        store,
        sessions,
        sandboxes,
        reviews,
        refusals,
        warden,
        tracing,
        caps,
        {ASKER.name: ASKER},
        Flow(caps.arguments_bytes_per_s),
    )
    session = await sessions.open(ASKER, "tester", "", {})
    log.disk.clear()
    live = await gate.submit(
        Submission(
            principal=ASKER,
            session_id=session,
            sandbox_id=SANDBOX.sandbox_id,
            call_id="c1",
            tool="Bash",
            arguments_json=b'{"command": "npm install"}',
            arrived_ns=time.monotonic_ns(),
        )
    )
    await asyncio.sleep(0)  # the call's task runs until it waits for the disk
    [row] = reviews.waiting()
    turn = reviews.turn(row.review_id)
    deciding = asyncio.create_task(turn.acquire())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not deciding.done()  # the index shows it, and it is not parked yet
    assert not live.parked
    log.disk.set()
    await deciding
    assert live.parked
    assert store.parked(row.review_id) == b'{"command": "npm install"}'
    turn.release()
    await gate.drain(0)
    await log.close()
    engine.close()
    tracing.close()
    store.close()
