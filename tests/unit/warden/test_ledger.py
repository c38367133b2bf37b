"""The ledger and the segments: what is on disk is whole, chained, and found again."""

import asyncio
import os

import pytest

from opensafe.errors import AuditError
from opensafe.model.chain import verify
from opensafe.warden import kernel
from opensafe.warden.ledger import Ledger
from opensafe.warden.segments import Segments

LEAVES = [f"{number:064x}" for number in range(5)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


def written(path):
    return [link.record for link in verify(path.read_bytes().splitlines())]


async def test_entries_are_chained_and_found_again(path):
    ledger = Ledger(path)
    for leaf in LEAVES:
        await ledger.durable(ledger.append("start", sandbox_id="sb", exec_id="exec", leaf=leaf, subject="ab"))
    ledger.append("end", sandbox_id="sb", exec_id="exec")
    ledger.close()
    assert [entry["leaf"] for entry in written(path)] == [*LEAVES, ""]
    assert written(path)[0].keys() == {"kind", "sandbox_id", "exec_id", "leaf", "subject", "unix_us", "index", "prev"}
    again = Ledger(path)
    assert again.size == 6
    assert again.used == {bytes.fromhex(leaf) for leaf in LEAVES}
    again.append("start", sandbox_id="sb", leaf="f" * 64)
    again.close()
    assert len(written(path)) == 7


async def test_entries_side_by_side_are_all_durable(path, monkeypatch):
    syncs = []
    original = os.fdatasync

    def counted(file):
        syncs.append(file)
        original(file)

    monkeypatch.setattr(os, "fdatasync", counted)
    ledger = Ledger(path)
    await asyncio.gather(*(ledger.durable(ledger.append("start", sandbox_id="sb", leaf=leaf)) for leaf in LEAVES * 20))
    ledger.close()
    assert len(written(path)) == 100
    assert len(syncs) < 100


@pytest.mark.parametrize("torn", [b"{", b'{"kind":"start"', b"\xff"])
def test_a_torn_tail_is_cut(path, torn):
    ledger = Ledger(path)
    ledger.append("start", sandbox_id="sb", leaf=LEAVES[0])
    ledger.close()
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    Ledger(path).close()
    assert path.read_bytes() == whole


@pytest.mark.parametrize("damage", ["edit", "drop", "swap"])
def test_a_broken_chain_is_refused(path, damage):
    ledger = Ledger(path)
    for leaf in LEAVES:
        ledger.append("start", sandbox_id="sb", leaf=leaf)
    ledger.close()
    lines = path.read_bytes().splitlines(keepends=True)
    match damage:
        case "edit":
            lines[1] = lines[1].replace(b'"sb"', b'"sc"')
        case "drop":
            del lines[1]
        case "swap":
            lines[1], lines[2] = lines[2], lines[1]
    path.write_bytes(b"".join(lines))
    with pytest.raises(AuditError, match="record"):
        Ledger(path)


def test_a_ledger_that_is_a_symlink_is_refused(path, tmp_path):
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AuditError):
        Ledger(path)


def test_a_disk_that_is_full_refuses_this_entry_and_every_later_one(path, monkeypatch):
    ledger = Ledger(path)
    ledger.append("start", sandbox_id="sb", leaf=LEAVES[0])

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(AuditError, match="No space left"):
            ledger.append("start", sandbox_id="sb", leaf=LEAVES[1])
    with pytest.raises(AuditError, match="broken"):
        ledger.append("start", sandbox_id="sb", leaf=LEAVES[2])
    ledger.close()
    assert len(written(path)) == 1


def test_half_an_entry_is_taken_back(path, monkeypatch):
    ledger = Ledger(path)
    original = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda file, data: original(file, data[:5]))
        with pytest.raises(AuditError):
            ledger.append("start", sandbox_id="sb", leaf=LEAVES[0])
    ledger.close()
    assert path.read_bytes() == b""


async def test_a_sync_that_fails_starts_nothing(path, monkeypatch):
    ledger = Ledger(path)

    def failing(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", failing)
    with pytest.raises(AuditError, match="durable"):
        await ledger.durable(ledger.append("start", sandbox_id="sb", leaf=LEAVES[0]))
    with pytest.raises(AuditError, match="broken"):
        ledger.append("start", sandbox_id="sb", leaf=LEAVES[1])
    ledger.close()


@pytest.fixture
def segments(tmp_path):
    segments = Segments(tmp_path / "audit", os.getegid())
    yield segments
    kernel.set_append_only(segments.writer, False)
    segments.close()


def test_a_line_is_read_back_whole(segments):
    os.write(segments.writer, b"first\nsecond\ntorn")
    assert segments.line(0, 0, 5) == b"first"
    assert segments.line(0, 6, 6) == b"second"


@pytest.mark.parametrize(
    ("offset", "length"), [(0, 4), (1, 4), (0, 12), (6, 5), (7, 5), (13, 4), (100, 1), (0, 6), (5, 1)]
)
def test_what_is_no_whole_line_is_refused(segments, offset, length):
    os.write(segments.writer, b"first\nsecond\ntorn")
    with pytest.raises(AuditError):
        segments.line(0, offset, length)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_segment_can_only_grow_even_for_who_clears_the_append_flag(segments):
    assert segments.append_only  # of this file system; elsewhere the status says that it is not
    os.write(segments.writer, b"record\n")
    import fcntl

    with pytest.raises(PermissionError):
        fcntl.fcntl(segments.writer, fcntl.F_SETFL, 0)
    path = segments.path(0)
    for attempt in (
        lambda: os.truncate(path, 0),
        lambda: os.close(os.open(path, os.O_WRONLY)),
        lambda: os.unlink(path),
        lambda: os.rename(path, path.with_name("other")),
    ):
        with pytest.raises(PermissionError):
            attempt()
    # The control: what it is for.
    os.write(segments.writer, b"more\n")
    assert segments.line(0, 7, 4) == b"more"


def test_modes_and_the_last_segment(tmp_path):
    first = Segments(tmp_path / "audit", os.getegid())
    assert first.path(0).stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "audit").stat().st_mode & 0o777 == 0o750
    kernel.set_append_only(first.writer, False)
    first.close()
    (tmp_path / "audit" / "segment-000007.jsonl").write_bytes(b"")
    later = Segments(tmp_path / "audit", os.getegid())
    assert later.number == 7
    kernel.set_append_only(later.writer, False)
    later.close()


async def test_an_entry_that_comes_just_as_a_sync_ends_gets_one_of_its_own(path):
    """Writers that go on one after the other, each at its own pace, meet every moment of a sync."""
    ledger = Ledger(path)

    async def write(pace):
        for _ in range(100):
            await ledger.durable(ledger.append("end", sandbox_id="sb"))
            for _ in range(pace):
                await asyncio.sleep(0)

    await asyncio.gather(*(write(pace) for pace in range(12)))
    assert ledger.size == 1200
    ledger.close()
