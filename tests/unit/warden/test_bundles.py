"""The warden's part in a change of policy: what is seen of a file, what is archived, and what reaches the helper."""

import asyncio
import hashlib
import os
import resource

import pytest

from opensafe.errors import BundleRefused, ConfigError, Unavailable
from opensafe.warden import bundles
from opensafe.warden.bundles import Bundles, Mailbox
from opensafe.warden.prune import SPARES

ONE, TWO = "1" * 64, "2" * 64


@pytest.fixture
async def watching(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    watched = Bundles(place / "bundle", tmp_path / "bundles", tmp_path / "audit")
    task = watched.start()
    yield watched, place / "bundle", tmp_path / "bundles"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    watched.close()


def archived(archive, content):
    return (archive / f"{hashlib.sha256(content).hexdigest()}.tar.gz").read_bytes() == content


async def next_offer(watched, after):
    return await asyncio.wait_for(watched.offered(after), 10)


async def test_a_file_is_offered_when_it_is_renamed_or_written_into_place(watching):
    watched, place, archive = watching
    offer = await next_offer(watched, 0)
    assert (offer.digest, "No such file" in offer.refused) == ("", True)
    place.with_name("part").write_bytes(b"one")
    place.with_name("part").rename(place)
    offer = await next_offer(watched, offer.number)
    assert (offer.digest, offer.refused) == (hashlib.sha256(b"one").hexdigest(), "")
    assert archived(archive, b"one")
    place.write_bytes(b"two")
    while offer.digest != hashlib.sha256(b"two").hexdigest():
        offer = await next_offer(watched, offer.number)
    assert archived(archive, b"two")
    assert {path.stat().st_mode & 0o777 for path in archive.iterdir()} == {0o644}


async def test_what_a_start_removed_is_told_until_it_is_on_record(watching, tmp_path):
    _, place, archive = watching
    place.write_bytes(b"one")
    for number in range(SPARES + 1):
        (archive / f"{number:064x}.tar.gz").touch()
    (tmp_path / "audit").mkdir()
    again = Bundles(place, archive, tmp_path / "audit")
    task = again.start()
    try:
        first, told_again = await next_offer(again, 0), await next_offer(again, 0)
        assert len(first.removed) >= 1
        assert told_again.removed == first.removed, "a front that died before it wrote them asks from the start"
        place.write_bytes(b"two")
        assert (await next_offer(again, first.number)).removed == ()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        again.close()


async def test_another_name_in_the_directory_is_nobodys_concern(watching):
    watched, place, archive = watching
    offer = await next_offer(watched, 0)
    place.with_name("other").write_bytes(b"other")
    place.write_bytes(b"ours")
    assert (await next_offer(watched, offer.number)).digest == hashlib.sha256(b"ours").hexdigest()
    assert not (archive / f"{hashlib.sha256(b'other').hexdigest()}.tar.gz").exists()


@pytest.mark.parametrize("kind", ["link", "pipe", "directory", "large"])
async def test_G36_what_is_no_bundle_file_is_refused(watching, kind, monkeypatch):
    watched, place, archive = watching
    offer, odd = await next_offer(watched, 0), place.with_name("odd")
    match kind:
        case "link":
            place.with_name("target").write_bytes(b"elsewhere")
            odd.symlink_to("target")
        case "pipe":
            os.mkfifo(odd)
        case "directory":
            odd.mkdir()
        case "large":
            monkeypatch.setattr(bundles, "_MAX_BYTES", 10)
            odd.write_bytes(b"eleven bytes")
    odd.rename(place)
    offer = await next_offer(watched, offer.number)
    assert offer.digest == ""
    assert "can't be read" in offer.refused
    assert list(archive.iterdir()) == []


def test_without_the_directory_there_is_no_start(tmp_path):
    with pytest.raises(ConfigError, match="make bundle"):
        Bundles(tmp_path / "none" / "bundle", tmp_path / "bundles", tmp_path / "audit").start()


async def helper_of(mailbox, refuse=""):
    """A helper that takes what comes; its steps."""
    finished, error = 0, ""
    steps = []
    try:
        while True:
            step = await mailbox.next(finished, error)
            steps.append((step.digest, step.swap))
            finished, error = step.number, refuse if step.digest == TWO else ""
    except asyncio.CancelledError:
        mailbox.ended()
        return steps


async def end(helper):
    helper.cancel()
    return await helper


async def test_the_helper_takes_the_fronts_steps_in_order():
    mailbox = Mailbox()
    helper = asyncio.create_task(helper_of(mailbox))
    await mailbox.ask(ONE, swap=False)
    assert mailbox.serving == ""
    await mailbox.ask(ONE, swap=True)
    assert mailbox.serving == ONE
    assert await end(helper) == [(ONE, False), (ONE, True)]
    assert mailbox.serving == ""


async def test_a_helper_that_starts_anew_gets_what_is_in_force():
    mailbox = Mailbox()
    helper = asyncio.create_task(helper_of(mailbox))
    await mailbox.ask(ONE, swap=True)
    await mailbox.ask(TWO, swap=False)
    await end(helper)
    helper = asyncio.create_task(helper_of(mailbox))
    async with asyncio.timeout(10):
        while mailbox.serving != ONE:  # noqa: ASYNC110 - a step nobody asked for tells nobody of its end
            await asyncio.sleep(0)
    assert await end(helper) == [(ONE, True)]


async def test_a_helpers_refusal_reaches_the_front_and_changes_nothing():
    mailbox = Mailbox()
    helper = asyncio.create_task(helper_of(mailbox, refuse="hash: a member"))
    await mailbox.ask(ONE, swap=True)
    with pytest.raises(BundleRefused, match="egress helper: hash"):
        await mailbox.ask(TWO, swap=True)
    assert mailbox.serving == ONE
    await end(helper)


async def test_a_helper_that_ends_under_a_step_is_not_waited_for():
    mailbox = Mailbox()
    asked = asyncio.create_task(mailbox.ask(ONE, swap=True))
    step = await mailbox.next(0, "")
    assert step.digest == ONE
    mailbox.ended()
    with pytest.raises(Unavailable, match="ended"):
        await asked
    helper = asyncio.create_task(helper_of(mailbox))  # the next one is told
    async with asyncio.timeout(10):
        while mailbox.serving != ONE:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
    assert await end(helper) == [(ONE, True)]


async def test_a_helper_that_does_not_answer_is_not_waited_for_forever(monkeypatch):
    monkeypatch.setattr(bundles, "_HELPER_S", 0.01)
    with pytest.raises(Unavailable, match="did not answer"):
        await Mailbox().ask(ONE, swap=True)


async def test_a_bundle_that_can_not_be_archived_is_refused_with_the_remedy(watching):
    watched, place, archive = watching
    await next_offer(watched, 0)
    archive.rmdir()
    archive.write_bytes(b"")  # nothing can be written below a file
    place.with_name("part").write_bytes(b"one")
    place.with_name("part").rename(place)
    offer = await next_offer(watched, 1)
    assert offer.digest == ""
    assert "can't be archived" in offer.refused
    assert "Make room" in offer.refused


def test_what_was_begun_on_a_full_disk_is_removed(tmp_path):
    with pytest.raises(OSError, match="large"):
        limited(lambda: bundles.keep(tmp_path / "name", bytes(4096)))
    assert list(tmp_path.iterdir()) == []


def limited(work):
    """`work` while no file may grow beyond a kilobyte."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, old[1]))
    try:
        work()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
