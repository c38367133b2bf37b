"""Group commit in the warden: durable means synced, and after a failure nothing counts as durable any more."""

import asyncio
import errno
import os
import threading

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
        with pytest.raises(AuditError, match="shorter"):
            await syncer.durable(12)
        syncer.close()
        syncer.close()


async def test_who_comes_during_a_sync_waits_for_the_next(tmp_path, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    sizes = []
    real = os.fdatasync

    def slow(file):
        sizes.append(os.fstat(file).st_size)
        begun.set()
        go_on.wait()
        real(file)

    monkeypatch.setattr(os, "fdatasync", slow)
    with (tmp_path / "file").open("wb", buffering=0) as file:
        syncer = Syncer(file.fileno(), "file")
        file.write(b"x")
        first = asyncio.ensure_future(syncer.durable(1))
        await asyncio.to_thread(begun.wait)
        file.write(b"y")
        second = asyncio.ensure_future(syncer.durable(2))
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(first, second)
        assert sizes == [1, 2]
        syncer.close()


async def test_after_a_failed_sync_nothing_more_is_durable(tmp_path, monkeypatch):
    def refuse(_):
        raise OSError(errno.EIO, "Input/output error")

    with (tmp_path / "file").open("wb", buffering=0) as file:
        syncer = Syncer(file.fileno(), "file")
        file.write(b"x")
        assert not syncer.failed
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", refuse)
            with pytest.raises(AuditError, match="the file can't be made durable"):
                await syncer.durable(1)
        with pytest.raises(AuditError, match="the file can't be made durable"):  # though the disk takes it now
            await syncer.durable(1)
        assert syncer.failed
        syncer.close()


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
