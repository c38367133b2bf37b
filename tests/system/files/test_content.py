"""Reading and writing through the typed service: sizes, ranges, atomic replacement, typed refusals."""

import asyncio
import hashlib
import os
import re

import pytest

from opensafe import errors

MIB = 1 << 20


@pytest.mark.parametrize("size", [0, 1, MIB, MIB + 1, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 5 * MIB])
async def test_R30_content_passes_around_every_boundary(files, size):
    content = os.urandom(size)
    await files.write("content", content)
    assert await files.read_bytes("content") == content
    assert (await files.stat("content")).size == size


async def test_R30_100_MiB_pass_both_ways(files, tmp_path):
    source = tmp_path / "source"
    block = os.urandom(MIB)
    with source.open("wb") as file:
        for _ in range(100):
            file.write(block)
    await files.write("large", source)
    digest = hashlib.sha256()
    async for data in files.read("large"):
        digest.update(data)
    with source.open("rb") as file:
        assert digest.hexdigest() == hashlib.file_digest(file, "sha256").hexdigest()


async def test_R30_1_GiB_can_be_read(files):
    """A sparse file, so that the sandbox needs no such memory."""
    await files.write("sparse", b"", offset=1 << 30, truncate=True)
    size = 0
    async for data in files.read("sparse"):
        size += len(data)
    assert size == 1 << 30


async def test_ranges(files):
    await files.write("numbers", b"0123456789")
    assert await files.read_bytes("numbers", offset=3) == b"3456789"
    assert await files.read_bytes("numbers", offset=8, length=100) == b"89"
    assert await files.read_bytes("numbers", offset=100) == b""
    await files.write("numbers", b"ab", offset=2)
    assert await files.read_bytes("numbers") == b"01ab456789"


async def test_R39_a_small_content_leaves_nothing_of_a_large_one(files):
    await files.write("file", b"x" * (2 * MIB))
    await files.write("file", b"small")
    assert await files.read_bytes("file") == b"small"
    await files.write("file", b"!", offset=1, truncate=True)
    assert await files.read_bytes("file") == b"s!"


@pytest.mark.parametrize("offset", [-1, 2**53, 2**63 - 1])
async def test_R34_offsets_out_of_bounds_are_typed_errors(files, offset):
    await files.write("file", b"0123456789")
    with pytest.raises(errors.InvalidArgument):
        await files.read_bytes("file", offset=offset)
    with pytest.raises(errors.InvalidArgument):
        await files.write("file", b"x", offset=offset)


@pytest.mark.parametrize("length", [-1, 2**53, 2**63 - 1])
async def test_R34_lengths_out_of_bounds_are_typed_errors(files, length):
    with pytest.raises(errors.InvalidArgument):
        await files.read_bytes("file", length=length)


async def test_T12_content_that_is_not_what_was_declared_never_gets_the_name(files, tmp_path, monkeypatch):
    await files.write("file", b"old")
    source = tmp_path / "source"
    source.write_bytes(os.urandom(2 * MIB))

    async def lies(_content):
        return 2 * MIB, "0" * 64

    monkeypatch.setattr("opensafe.client._files._measure", lies)
    with pytest.raises(errors.ContentMismatch):
        await files.write("file", source)
    assert await files.read_bytes("file") == b"old"
    assert [entry.name async for entry in files.entries(".")] == [b"file"]


async def test_content_shorter_or_longer_than_was_said_is_refused(files, monkeypatch):
    for said in (5, 15):

        async def lies(content, said=said):
            return said, hashlib.sha256(content).hexdigest()

        monkeypatch.setattr("opensafe.client._files._measure", lies)
        with pytest.raises(errors.InvalidArgument, match="not as long as was said"):
            await files.write("file", b"0123456789")


async def test_PE_20_small_content_is_judged_and_can_t_be_declared_instead(agent, session, sandbox, files):
    secret = b"AKIA" + b"ABCDEFGHIJKLMNOP"
    with pytest.raises(errors.Denied, match=re.escape("tool.write.secret.block")):
        await files.write("file", secret)
    declared = {"path": "file", "size": len(secret), "sha256": hashlib.sha256(secret).hexdigest()}
    with pytest.raises(errors.InvalidArgument, match="/size"):
        await agent.run_call(session, sandbox, "declared", "Write", declared, stdin=secret)


async def test_a_no_names_the_rule_and_the_remedy(files, daemon):
    before = daemon.starts()
    with pytest.raises(errors.Denied) as caught:
        await files.read_bytes("/etc/shadow")
    assert caught.value.rule == "tool.read.secrets.block"
    assert caught.value.remedy
    for path in (".git/hooks/pre-commit", "/etc/passwd", "../../etc/passwd", ".bashrc"):
        with pytest.raises(errors.Denied):
            await files.write(path, b"x")
    assert daemon.starts() == before


async def test_a_parked_write_is_a_typed_error_with_the_review(files):
    with pytest.raises(errors.ReviewPending) as caught:
        await files.write("Makefile", b"all:\n")
    assert caught.value.value.startswith("rev-")


async def test_a_repeated_call_id_runs_once(files, daemon):
    await files.write("file", b"1", call_id="once")
    before = daemon.starts()
    await files.write("file", b"1", call_id="once")
    assert daemon.starts() == before
    with pytest.raises(errors.Conflict):
        await files.write("file", b"2", call_id="once")


async def test_leaving_a_read_early_ends_it(files, daemon, sandbox):
    await files.write("sparse", b"", offset=1 << 30, truncate=True)
    reading = files.read("sparse")
    async for _ in reading:
        break
    assert reads(daemon, sandbox)  # the control: it has far to go
    await reading.aclose()
    async with asyncio.timeout(30):
        while reads(daemon, sandbox):  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.01)
    assert await files.read_bytes("sparse", length=10) == bytes(10)


def reads(daemon, sandbox):
    """Whether one of the programs that serve files runs in the sandbox."""
    return any("file" in name for name in daemon.guest_processes(sandbox))
