"""Removing is repeated until it is done, across a restart; a watcher that is too slow is told so; a start agrees.

The warden is a double here: a real one can't be made to fail a removal, or to forget a sandbox, on demand.
"""

import asyncio
import os
from typing import Any

import pytest

from opensafe.audit import log as audit
from opensafe.audit.log import AuditLog
from opensafe.control import removals as module
from opensafe.control.changes import Changes
from opensafe.control.removals import Removals
from opensafe.control.sandbox_list import SandboxList
from opensafe.control.upkeep import Upkeep
from opensafe.errors import Conflict, LimitExceeded, NotFound, SandboxError, SandboxLost, Unavailable
from opensafe.model.calls import Principal
from opensafe.model.ids import now_us
from opensafe.model.records import SandboxRecord, SessionRecord
from opensafe.state.store import Store
from opensafe.warden.protocol import SandboxState

SESSION, PRINCIPAL = "ses-00000000000000000001", Principal(name="agent")
FIRST, SECOND = "sb-00000000000000000001", "sb-00000000000000000002"


class Double:
    """Answers in turn what `answers` holds; then that there is nothing to remove."""

    def __init__(self, *answers, states=()):
        self.answers = list(answers)
        self.states = states
        self.asked = []

    async def delete_sandbox(self, sandbox_id):
        self.asked.append(("delete", sandbox_id))
        answer = self.answers.pop(0) if self.answers else NotFound("no such sandbox")
        if answer is not None:
            raise answer

    async def list_sandboxes(self):
        return self.states

    async def pause_sandbox(self, sandbox_id):
        self.asked.append(("pause", sandbox_id))

    async def resume_sandbox(self, sandbox_id):
        self.asked.append(("resume", sandbox_id))


def warden_that(*answers: Any, states: Any = ()) -> Any:
    return Double(*answers, states=states)


@pytest.fixture
async def place(tmp_path):
    path = tmp_path / "segment-000000.jsonl"
    store = Store(tmp_path / "index.sqlite")
    log = AuditLog(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND), (path,), store.fold)
    await log.open()
    await log.append(SessionRecord(time_us=1, session_id=SESSION, principal="agent", state="open"))
    for sandbox_id in (FIRST, SECOND):
        await log.append(made(sandbox_id))
    yield log, store
    await log.close()
    store.close()


def made(sandbox_id, state="running", template="base"):
    return SandboxRecord(
        time_us=now_us(),
        sandbox_id=sandbox_id,
        session_id=SESSION,
        principal="agent",
        state=state,
        cause="asked",
        template=template,
        expires_us=now_us() + 10**9,
    )


def seen(sandbox_id, state):
    return SandboxState(sandbox_id=sandbox_id, template="base", state=state, created_unix_ns=1)


async def removed(store, sandbox_id, state="deleted"):
    async with asyncio.timeout(10):
        while store.sandbox(sandbox_id).state != state:  # noqa: ASYNC110 - the index has no event
            await asyncio.sleep(0.005)
    return store.sandbox(sandbox_id)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "_FIRST_S", 0.01)


async def test_a_removal_that_fails_is_shown_and_repeated(place):
    log, store = place
    warden = warden_that(SandboxLost("its cgroup stays busy"), Conflict("is being deleted"), None)
    removals = Removals(Changes(log, store), warden)
    await removals.begin(FIRST, "asked")
    with pytest.raises(SandboxError, match="stays busy"):
        await removals.tried(FIRST)
    assert store.sandbox(FIRST).cause == "not removed yet: its cgroup stays busy"
    assert (await removed(store, FIRST)).state == "deleted"
    assert len(warden.asked) == 3
    await removals.close()


async def test_a_removal_under_way_elsewhere_is_no_failure(place):
    log, store = place
    removals = Removals(Changes(log, store), warden_that(Conflict("is being deleted")))
    await removals.begin(FIRST, "asked")
    await removals.tried(FIRST)
    assert store.sandbox(FIRST).state == "deleted"
    await removals.close()


async def test_a_removal_that_a_front_left_is_gone_on_with_by_the_next(place):
    log, store = place
    changes = Changes(log, store)
    first = Removals(changes, warden_that(Unavailable("the warden is gone")))
    await first.begin(FIRST, "asked")
    with pytest.raises(Unavailable):
        await first.tried(FIRST)
    await first.close()
    assert store.sandbox(FIRST).state == "deleting"
    warden = warden_that(states=(seen(FIRST, "running"), seen(SECOND, "running")))
    second = Removals(changes, warden)
    await Upkeep(changes, second, store, warden).reconcile()
    await removed(store, FIRST)
    assert store.sandbox(SECOND).state == "running"  # the twin
    await second.close()


async def test_r46_a_start_makes_the_warden_agree_with_the_record(place):
    log, store = place
    await log.append(made(SECOND, state="paused", template=""))
    strange = "sb-00000000000000000003"
    warden = warden_that(None, states=(seen(FIRST, "paused"), seen(SECOND, "running"), seen(strange, "running")))
    changes = Changes(log, store)
    await Upkeep(changes, Removals(changes, warden), store, warden).reconcile()
    assert warden.asked == [("resume", FIRST), ("pause", SECOND), ("delete", strange)]


async def test_r46_what_the_warden_does_not_know_is_lost(place):
    log, store = place
    warden = warden_that(states=(seen(SECOND, "running"),))
    changes = Changes(log, store)
    await Upkeep(changes, Removals(changes, warden), store, warden).reconcile()
    assert (store.sandbox(FIRST).state, store.sandbox(FIRST).cause) == ("lost", "ended while the daemon was away")
    assert store.sandbox(SECOND).state == "running"


@pytest.mark.parametrize("behind", [3, 50])
async def test_a_watcher_is_cut_off_only_where_the_log_has_moved_on_too_far(place, monkeypatch, behind):
    log, store = place
    monkeypatch.setattr(audit, "_RECENT", 10)
    watching = SandboxList(log, store).watch(PRINCIPAL)
    assert [(await anext(watching)).sandbox_id for _ in range(2)] == [FIRST, SECOND]
    for _ in range(behind):  # while nobody reads
        await log.append(made(FIRST, template=""))
    if behind < 10:
        assert (await anext(watching)).sandbox_id == FIRST
    else:
        with pytest.raises(LimitExceeded, match="fell behind"):
            await anext(watching)
    await watching.aclose()


async def test_the_index_folded_anew_holds_the_same(place, tmp_path):
    log, store = place
    changes = Changes(log, store)
    async with changes.turn(FIRST) as row:
        await changes.record(row, "paused", "idle")
    async with changes.turn(SECOND) as row:
        await changes.record(row, "running", expires_us=now_us() + 5 * 10**9)
    other = Store(tmp_path / "again.sqlite")
    again = AuditLog(
        os.open(tmp_path / "segment-000000.jsonl", os.O_WRONLY | os.O_APPEND),
        (tmp_path / "segment-000000.jsonl",),
        other.fold,
    )
    await again.open()
    assert [other.sandbox(one) for one in (FIRST, SECOND)] == [store.sandbox(one) for one in (FIRST, SECOND)]
    assert other.sandbox(FIRST).state == "paused"
    await again.close()
    other.close()
