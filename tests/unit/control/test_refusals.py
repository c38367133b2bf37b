"""Refusals are recorded one by one up to a pace, and counted beyond it: none goes unsaid."""

import os
from types import SimpleNamespace

import pytest

from opensafe.audit.log import AuditLog
from opensafe.control.refusals import Refusals
from opensafe.errors import Conflict, LimitExceeded


@pytest.fixture
async def kept(tmp_path):
    """A log, and the records that were folded from it."""
    records = []
    path = tmp_path / "segment"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    log = AuditLog(descriptor, (path,), lambda *folded: records.append(folded[1]))
    await log.open()
    yield log, records
    await log.close()


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("opensafe.control.refusals.time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


async def refuse(refusals, principal="agent"):
    async with refusals.noted(principal, request="ApproveReview rev-1"):
        raise Conflict("no")


async def test_every_refusal_is_on_record_or_counted(clock, kept):
    log, records = kept
    refusals = Refusals(log, 3)
    for _ in range(3):
        with pytest.raises(Conflict):
            await refuse(refusals)
    for _ in range(5):
        with pytest.raises(LimitExceeded, match=r"caps.refusals_per_s = 3"):
            await refuse(refusals)
    with pytest.raises(Conflict):
        await refuse(refusals, "other")
    assert [record.count for record in records] == [1, 1, 1, 1]
    await refusals.flush()
    assert sum(record.count for record in records) == 9
    assert (records[-1].principal, records[-1].count, records[-1].reason) == ("agent", 5, "LIMIT_EXCEEDED")
    await refusals.flush()
    assert len(records) == 5
    clock[0] += 1
    with pytest.raises(Conflict):
        await refuse(refusals)


async def test_what_is_not_refused_leaves_nothing(kept):
    log, records = kept
    async with Refusals(log, 1).noted("agent"):
        pass
    with pytest.raises(ZeroDivisionError):
        async with Refusals(log, 1).noted("agent"):
            1 / 0  # noqa: B018 - a fault of ours is no refusal
    assert records == []
