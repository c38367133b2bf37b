"""Group commit in the warden: durable means synced, and after a failure nothing counts as durable any more."""

import asyncio
import os

import pytest

from opensafe.errors import AuditError
from opensafe.warden import kernel
from opensafe.warden.protocol import RecordRef
from opensafe.warden.segments import Segments
from opensafe.warden.syncing import Syncer


async def test_those_who_wait_together_share_a_sync(tmp_path, monkeypatch):
    synced = []
    real = os.fdatasync

    def counted(file):
        synced.append(file)
        real(file)

    monkeypatch.setattr(os, "fdatasync", counted)
    with (tmp_path / "file").open("wb", buffering=0) as file:
        syncer = Syncer(file.fileno(), "file")
        file.write(b"x" * 10)
        await asyncio.gather(*(syncer.durable(position) for position in range(11)))
        assert len(synced) == 1
        file.write(b"y")
        await syncer.durable(10)
        assert len(synced) == 1
        await syncer.durable(11)
        assert len(synced) == 2


async def test_after_a_failed_sync_nothing_more_is_durable():
    reader, writer = os.pipe()
    syncer = Syncer(writer, "file")
    assert not syncer.failed
    for _ in range(2):
        with pytest.raises(AuditError, match="the file can't be made durable"):
            await syncer.durable(1)
    assert syncer.failed
    os.close(reader)
    os.close(writer)


async def test_a_record_beyond_the_end_is_not_waited_for(tmp_path):
    segments = Segments(tmp_path / "audit", os.getgid())
    try:
        os.write(segments.writer, b"line\n")
        await segments.durable(RecordRef(segment=0, offset=0, length=4, leaf="0" * 64))
        for offset, length in ((0, 5), (5, 4), (1 << 40, 1)):
            with pytest.raises(AuditError, match="no record lies there"):
                await segments.durable(RecordRef(segment=0, offset=offset, length=length, leaf="0" * 64))
    finally:
        kernel.set_append_only(segments.writer, False)
        segments.close()
