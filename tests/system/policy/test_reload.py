"""A new bundle comes into force in both engines, whole, or not at all; and the daemon says which."""

import asyncio
import contextlib
import functools
import json
import operator
import os
import pathlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from opensafe.client import Client, Started, Stdout
from opensafe.model.decision import Action
from opensafe.model.outcome import OutcomeKind
from opensafe.policy import archive, sign
from opensafe.policy.manifest import ALLOWED, CONFIG, MANIFEST, SIGNATURE, VECTORS, read_manifest
from tests.harness.daemon import running, signal_process
from tests.harness.policy import KEY, repack, site_bundle

pytestmark = [pytest.mark.root, pytest.mark.runsc]

RELOADS = 100
ECHO = {"command": "echo hello"}
#: Growth that a hundred reloads may show, in bytes: caches that fill once, never what a reload would leave.
SLACK = 6 << 20


def _patient(data):
    """No ceiling on calls or blocks: the load of these tests is not what they are about."""
    data["ceilings"] |= {"calls_per_minute": 1_000_000, "blocks_in_ten_minutes": 1_000_000}
    data["ceilings"]["session"]["calls"] = data["ceilings"]["principal"]["calls"] = 1_000_000


def _without_echo(data):
    _patient(data)
    del data["programs"]["ordinary"]["echo"]


class Site:
    """Two contents, one of which knows no `echo`, the key that signs them, and the place where the daemon looks."""

    def __init__(self, directory):
        mild, public = site_bundle(directory, change=_patient)
        strict, _ = site_bundle(directory, number=2, change=_without_echo)
        self.mild, self.strict = mild.read_bytes(), strict.read_bytes()
        self.public = public
        self.key = KEY
        self.place = directory / "place" / "policy.bundle.tar.gz"
        self.place.parent.mkdir()
        self.number = 100
        self.put(self.mild)

    def next(self, content):
        """`content`, signed under the next number."""
        self.number += 1
        return sign.sign(content, self.key, self.number)

    def put(self, content):
        """Put it in place as it should be done: by a rename."""
        part = self.place.with_name("part")
        part.write_bytes(content)
        part.rename(self.place)

    def action(self, revision):
        """What `echo` gets under a revision, whose second half says which content it is."""
        digests = {read_manifest(archive.unpack(one, ALLOWED)).revision.split("-")[1]: one for one in self.both}
        return Action.ALLOW if digests[revision.split("-")[1]] is self.mild else Action.BLOCK

    @property
    def both(self):
        return self.mild, self.strict


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return Site(tmp_path_factory.mktemp("site"))


@pytest.fixture
def daemon(site):
    """A daemon of the test's own: a log's highest number is for life."""
    site.number = 100
    site.put(site.mild)
    with running(bundle=site.place, key=site.public) as daemon:
        yield daemon


@contextlib.asynccontextmanager
async def watched(client):
    """Waits for the end of the next bundle put in place."""
    stream = client.watch_bundle()
    await anext(stream)  # what was
    try:
        yield lambda: asyncio.wait_for(anext(stream), 10)
    finally:
        await stream.aclose()


def usage(pid):
    """Open descriptors, threads and private bytes of a process."""
    process = pathlib.Path("/proc", str(pid))
    private = sum(
        int(line.split()[1]) << 10
        for line in (process / "smaps_rollup").read_text().splitlines()
        if line.startswith("Private")
    )
    return len(os.listdir(process / "fd")), len(os.listdir(process / "task")), private


def records(daemon, kind):
    lines = (daemon.state / "audit" / "segment-000000.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


async def judged(client: Client, session):
    """The revision that `echo` is judged on, and its verdict."""
    verdict = await client.decide(session, "Bash", ECHO)
    return verdict.bundle_revision, verdict.action


@pytest.mark.timeout(300)  # on a busy machine
async def test_G31_a_hundred_reloads_under_load_mix_nothing_and_leave_nothing(site, daemon):
    verdicts, done = [], asyncio.Event()
    log, written = daemon.state / "audit" / "segment-000000.jsonl", 0

    async def load(client):
        session = await client.create_session("load")
        while not done.is_set():
            verdicts.append(await judged(client, session))

    async def run(client):
        session = await client.create_session("run")
        sandbox = (await client.create_sandbox(session)).sandbox_id
        number = 0
        while not done.is_set():
            number += 1
            result = await client.run_call(session, sandbox, f"c{number}", "Bash", ECHO)
            verdicts.append((result.verdict.bundle_revision, result.verdict.action))

    async def reload(client):
        nonlocal written
        try:
            async with watched(client) as settled:
                for number in range(RELOADS):
                    site.put(site.next(site.both[(number + 1) % 2]))
                    end = await settled()
                    assert end.activated, end.reason
                    if number == RELOADS // 5:
                        written = log.stat().st_size
                        before.update({role: usage(daemon.child(role)) for role in ("front", "helper")})
        finally:
            done.set()

    before: dict[str, tuple[int, int, int]] = {}
    async with daemon.client() as agent, daemon.client("other") as other, daemon.client("reviewer") as reviewer:
        await asyncio.gather(load(agent), load(other), run(agent), reload(reviewer))
        assert (await reviewer.status()).helper_revision == (await reviewer.status()).bundle_revision

    assert len({revision for revision, _ in verdicts}) > RELOADS // 2
    assert [(revision, action) for revision, action in verdicts if action is not site.action(revision)] == []
    recorded = [
        (record["bundles"]["opensafe"]["revision"], record["result"]["data_version"])
        for record in records(daemon, "decision")
    ]
    assert len(recorded) >= len(verdicts)
    assert [pair for pair in recorded if len(set(pair)) != 1] == []
    assert len(records(daemon, "bundle")) == RELOADS + 1

    kept_lines = log.stat().st_size - written  # the front keeps the log's last lines for readers
    for role, (descriptors, threads, private) in before.items():
        after = usage(daemon.child(role))
        assert after[0] <= descriptors + 2, role
        assert after[1] <= threads + 1, role
        assert after[2] <= private + SLACK + (2 * kept_lines if role == "front" else 0), role


async def test_G25_a_bundle_in_force_changes_verdicts_and_the_status_says_so(site, daemon):
    async with daemon.client() as agent, daemon.client("reviewer") as reviewer:
        session = await agent.create_session("s")
        old = await judged(agent, session)
        async with watched(reviewer) as settled:
            site.put(site.next(site.strict))
            end = await settled()
        assert end.activated
        assert await judged(agent, session) == (end.revision, Action.BLOCK) != old
        status = await reviewer.status()
        assert (status.bundle_revision, status.bundle_number) == (end.revision, site.number)
        assert (status.helper_revision, status.bundle_refused) == (end.revision, False)
    (_, activated) = records(daemon, "bundle")
    assert (activated["state"], activated["revision"], activated["previous"]) == ("activated", end.revision, old[0])


async def test_a_call_under_way_ends_on_the_revision_it_started_with(site, daemon):
    async with daemon.client() as agent, daemon.client("reviewer") as reviewer:
        session = await agent.create_session("s")
        sandbox = (await agent.create_sandbox(session)).sandbox_id
        closed, events = asyncio.Event(), []
        async with watched(reviewer) as settled:
            command = {"command": "echo a; cat; echo b"}
            async for event in agent.call(session, sandbox, "c1", "Bash", command, stdin=_until(closed)):
                events.append(event)
                if isinstance(event, Started):
                    site.put(site.next(site.strict))
                    end = await settled()
                    closed.set()
    decided, ended = events[0], events[-1]
    assert b"".join(event.data for event in events if isinstance(event, Stdout)) == b"a\nb\n"
    assert ended.outcome.kind is OutcomeKind.EXITED
    assert decided.verdict.bundle_revision != end.revision
    (call,) = [record for record in records(daemon, "decision") if record["call_id"] == "c1"]
    assert call["bundles"]["opensafe"]["revision"] == decided.verdict.bundle_revision


async def _until(event):
    await event.wait()
    return
    yield b""  # an iterator that gives nothing


def without(name):
    return lambda site: archive.pack({k: v for k, v in members(site).items() if k != name})


def members(site):
    return archive.unpack(site.next(site.strict), ALLOWED)


def resigned(site, **changed):
    """Signed, with these members not as the manifest lists them."""
    return archive.pack(sign.signed({**members(site), **changed}, site.key))


def of_a_stranger(site):
    return archive.pack(sign.signed(members(site), Ed25519PrivateKey.generate()))


def unsigned_algorithm(site):
    found = members(site)
    found[SIGNATURE] = found[SIGNATURE].replace(b"ed25519", b"none")
    return archive.pack(found)


TAMPERED = {
    "not signed": without(SIGNATURE),
    "another algorithm": unsigned_algorithm,
    "not trusted": of_a_stranger,
    "hash": lambda site: archive.pack({**members(site), CONFIG: b"{}"}),
    "manifest: absent": without(MANIFEST),
    "listed member is absent": without(VECTORS),
    "manifest": lambda site: resigned(site, **{MANIFEST: b"{}"}),
    "cut short": lambda site: site.next(site.strict)[:-9],
    "compression": lambda site: b"\0" * 100,
    "number is not higher": lambda site: sign.sign(site.strict, site.key, 1),
}


async def test_CP_12_a_bundle_that_is_refused_leaves_the_last_good_one(site, daemon):
    async with daemon.client() as agent, daemon.client("reviewer") as reviewer:
        session = await agent.create_session("s")
        good = await judged(agent, session)
        async with watched(reviewer) as settled:
            for why, spoil in TAMPERED.items():
                site.put(spoil(site))
                end = await settled()
                assert (end.activated, why in end.reason) == (False, True), (why, end)
                assert await judged(agent, session) == good
                status = await reviewer.status()
                assert status.bundle_refused
                assert why in status.last_refusal.reason
                assert status.helper_revision == status.bundle_revision == good[0]
            site.put(site.next(site.strict))
            assert (await settled()).activated
        status = await reviewer.status()
        assert not status.bundle_refused
    refused = [record for record in records(daemon, "bundle") if record["state"] == "refused"]
    assert [why for why, record in zip(TAMPERED, refused, strict=True) if why not in record["reason"]] == []


#: What an update may get wrong in its settings, and what the refusal says of it.
WRONG = {
    ("hosts", "allowd"): ([], ("'allowd'", "at hosts")),
    ("ceilings", "calls_per_minute"): (0, ("minimum of 1", "at ceilings.calls_per_minute")),
    ("grants", "bash", "seccomp"): ("unconfined", ("unconfined", "at grants.bash.seccomp")),
    ("tools", "Bash"): ("shell", ("shell", "at tools.Bash")),
}


def _set(site, place, value):
    """The next bundle, honestly signed, with one setting changed."""
    found = members(site)
    settings = json.loads(found[CONFIG])
    *above, last = place
    functools.reduce(operator.getitem, above, settings)[last] = value
    return repack({**found, CONFIG: json.dumps(settings).encode()})


async def test_G26_an_update_that_is_refused_says_which_field_and_one_that_differs_elsewhere_is_taken(site, daemon):
    async with daemon.client("reviewer") as reviewer, watched(reviewer) as settled:
        for place, (value, said) in WRONG.items():
            site.put(_set(site, place, value))
            end = await settled()
            assert not end.activated
            reasons = (
                end.reason,
                (await reviewer.status()).last_refusal.reason,
                records(daemon, "bundle")[-1]["reason"],
            )
            assert [text for reason in reasons for text in said if text not in reason] == [], reasons
        for place, value in ((("hosts", "allowed"), ["example.test"]), (("ceilings", "calls_per_minute"), 77)):
            site.put(_set(site, place, value))
            end = await settled()
            assert end.activated, end.reason


async def test_G36_what_is_no_regular_file_is_not_read(site, daemon, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(site.next(site.strict))
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(elsewhere)
    os.mkfifo(pipe)
    async with daemon.client("reviewer") as reviewer, watched(reviewer) as settled:
        for odd in (link, pipe):
            os.rename(odd, site.place)
            assert "can't be read" in (await settled()).reason
        site.place.unlink()
        site.place.write_bytes(elsewhere.read_bytes())  # written in place, not renamed: seen when it is closed
        assert (await settled()).activated


async def test_the_same_bundle_again_is_no_change(site, daemon):
    async with daemon.client("reviewer") as reviewer, watched(reviewer) as settled:
        content = site.next(site.mild)
        for _ in range(3):
            site.put(content)
            assert (await settled()).activated
    assert len(records(daemon, "bundle")) == 2


async def test_CP_10_the_highest_number_survives_a_restart(site, daemon):
    async with daemon.client("reviewer") as reviewer, watched(reviewer) as settled:
        site.put(site.next(site.strict))
        high = (await settled()).revision
    assert daemon.stop() == 0
    site.put(sign.sign(site.mild, site.key, 50))
    daemon.start()
    async with daemon.client("reviewer") as reviewer:
        status = await reviewer.status()
        assert (status.bundle_revision, status.bundle_refused) == (high, True)
        assert "number is not higher" in status.last_refusal.reason
        async with watched(reviewer) as settled:
            site.put(site.next(site.mild))
            assert (await settled()).activated


async def consistent(daemon):
    """The status once both engines have the same bundle again; what the log says last is what is in force."""
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(Exception):
                async with daemon.client("reviewer") as reviewer:
                    status = await reviewer.status()
                    if status.helper_revision:
                        break
            await asyncio.sleep(0.05)
    activated = [record for record in records(daemon, "bundle") if record["state"] == "activated"]
    assert activated[-1]["revision"] == status.bundle_revision == status.helper_revision
    return status


@pytest.mark.parametrize("role", ["helper", "front"])
async def test_a_process_killed_during_a_reload_leaves_one_revision_in_both(site, daemon, role):
    for delay in (0, 0.02, 0.06):
        site.put(site.next(site.strict))
        await asyncio.sleep(delay)  # not a wait for anything: another moment of the reload each time
        signal_process(daemon.child(role))
        await consistent(daemon)
    async with daemon.client("reviewer") as reviewer, watched(reviewer) as settled:
        site.put(site.next(site.mild))
        end = await settled()
        assert end.activated, end.reason
    assert (await consistent(daemon)).bundle_revision == end.revision
