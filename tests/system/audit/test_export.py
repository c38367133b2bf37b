"""What leaves the host: every checkpoint to second places, records as events, and evidence that verifies elsewhere."""

import asyncio
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from opensafe.audit.checkpoints import read_key
from opensafe.client import ShipState
from opensafe.errors import OpenSafeError
from opensafe.model.checkpoint import VerifierKey, opened
from tests.harness import ocsf as schema
from tests.harness.audit import signed
from tests.harness.collector import Collector, certify, syslog
from tests.harness.daemon import Daemon

pytestmark = [pytest.mark.root, pytest.mark.runsc]


def cli(*arguments, status=0):
    """The command's standard output; its exit status is as told."""
    done = subprocess.run([sys.executable, "-m", "opensafe.cli", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr


class Place:
    """A directory on this host that stands for another one, which the service user may write to."""

    def __init__(self):
        self.path = pathlib.Path("/run", f"opensafe-test-ship-{os.getpid()}")
        self.path.mkdir(mode=0o755)
        self.store = self.path / "store"
        self.store.mkdir()
        shutil.chown(self.store, "opensafe", "opensafe")
        self.ca, self.chain = certify(self.path)


@pytest.fixture(scope="module")
def place():
    made = Place()
    yield made
    shutil.rmtree(made.path)


async def work(daemon):
    """A session with calls that end in all ways; it and the ids of its calls."""
    async with daemon.client() as client:
        session = await client.create_session("tester")
        sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id
        for name, command in (("good", "echo hi"), ("bad", "exit 3"), ("blocked", "curl evil.example.com")):
            await client.run_call(session, sandbox, name, "Bash", {"command": command})
        with contextlib.suppress(OpenSafeError):
            await client.run_call(session, sandbox, "unknown", "Bush", {})
        await client.close_session(session)
        return session


class Recorded:
    """A daemon that has stopped, the session that it served, and what had come in at the second places by then."""

    def __init__(self, place):
        self.place = place
        self.session = ""
        self.ships: tuple[ShipState, ...] = ()
        self.posted: list[bytes] = []
        self.logged: list[bytes] = []

    async def live(self, start):
        with syslog(self.place.path / "log") as receiver:
            async with Collector().serving(self.place.chain) as collector:
                ship = (
                    f"file:{self.place.store}/checkpoint",
                    f"syslog:{self.place.path}/log",
                    f"https://localhost:{collector.port}/checkpoints",
                )
                self.daemon = start(ship)
                self.session = await work(self.daemon)
                await self.arrival()
                assert await asyncio.to_thread(self.daemon.stop) == 0
                self.posted = [collector.requests.get_nowait()[1] for _ in range(collector.requests.qsize())]
                with contextlib.suppress(BlockingIOError):
                    while True:
                        self.logged.append(receiver.recv(65536))

    async def arrival(self):
        """What was on record when the session ended has arrived everywhere."""
        async with self.daemon.client() as client:
            size = (await client.status()).audit_size
            while min((ship.size for ship in self.ships), default=0) < size:
                self.ships = (await client.status()).ships
                await asyncio.sleep(0.1)


@pytest.fixture(scope="module")
def recorded(place):
    made, daemons = Recorded(place), []

    def start(ship):
        daemons.append(Daemon(audit=f"checkpoint_s = 1\nship = {json.dumps(ship)}\nship_ca = '{place.ca}'"))
        return daemons[0].start()

    try:
        asyncio.run(made.live(start))
        yield made
    finally:
        for daemon in daemons:
            assert daemon.remove() == []


@pytest.fixture(scope="module")
def key(recorded, tmp_path_factory):
    """The public key, as it was kept elsewhere."""
    return shutil.copy(recorded.daemon.state / "audit/key.pub", tmp_path_factory.mktemp("kept") / "key.pub")


def sizes(notes, key):
    return [opened(note, read_key(key)).size for note in notes]


def test_checkpoints_reach_every_destination(recorded, place, key):
    posted = sizes(recorded.posted, key)
    logged = sizes([json.loads(one.partition(b": ")[2])["note"].encode() for one in recorded.logged], key)
    assert posted == logged == sorted(posted)
    assert sizes([(place.store / "checkpoint").read_bytes()], key) == posted[-1:]
    assert [(ship.failures, ship.error, ship.dropped) for ship in recorded.ships] == [(0, "", 0)] * 3
    done = cli("audit", "verify", "--state", recorded.daemon.state, "--checkpoint", place.store / "checkpoint")
    assert "verified" in done[0]


def test_every_record_is_an_event_of_the_published_schema(recorded):
    lines, told = cli("audit", "export", "--format", "ocsf", "--state", recorded.daemon.state)
    events = [json.loads(line) for line in lines.splitlines()]
    assert [fault for event in events for fault in schema.faults(event)] == []
    kinds = {(event["class_uid"], event.get("action_id"), event["status_id"]) for event in events}
    assert kinds >= {(6003, 1, 1), (6003, 2, 2), (1007, None, 1), (1007, None, 2), (6002, None, 1), (5019, None, 1)}
    assert f"{len(events)} records, {len(events)} lines" in told
    assert [event["process"]["name"] for event in events if event["class_uid"] == 1007] == ["echo", "exit"]


@pytest.mark.parametrize("form", ["cef", "jsonl"])
def test_a_session_is_exported_alone(recorded, form, tmp_path):
    output = tmp_path / "out"
    arguments = ("--session", recorded.session, "--state", recorded.daemon.state, "-o", output)
    cli("audit", "export", "--format", form, *arguments)
    lines = output.read_text().splitlines()
    assert len(lines) >= 10
    assert all(recorded.session in line for line in lines)


@pytest.mark.parametrize("scope", ["whole", "session", "call"])
def test_evidence_verifies_elsewhere_and_its_allows_are_judged_again(recorded, key, scope, tmp_path):
    bundle = tmp_path / "evidence.tar.gz"
    options = {"whole": (), "session": ("--session", recorded.session), "call": ("--call", "bad")}[scope]
    cli("audit", "export", "--format", "evidence", *options, "--state", recorded.daemon.state, "-o", bundle)
    told, _ = cli("audit", "verify", "--evidence", bundle, "--key", key, "--replay", "--json")
    report = json.loads(told)
    assert report["summary"]["ok"]
    assert report["summary"]["replayed"] == {"whole": 3, "session": 3, "call": 1}[scope]
    assert "traces.jsonl" in report["details"]["manifest"]["files"]
    assert any(name.startswith("bundles/") for name in report["details"]["manifest"]["files"])


def test_evidence_under_another_key_does_not_verify(recorded, tmp_path):
    bundle = tmp_path / "evidence.tar.gz"
    cli("audit", "export", "--format", "evidence", "--state", recorded.daemon.state, "-o", bundle)
    text = (recorded.daemon.state / "audit/key.pub").read_text()
    other = pathlib.Path(tmp_path / "other.pub")
    private = Ed25519PrivateKey.generate()
    name = text.partition("+")[0]
    other.write_text(VerifierKey(name, private.public_key().public_bytes_raw()).encode())
    told, _ = cli("audit", "verify", "--evidence", bundle, "--key", other, status=1)
    assert "not_signed" in told


async def test_evidence_of_a_daemon_that_goes_on_verifies(own_daemon, tmp_path):
    daemon = own_daemon(audit="checkpoint_s = 1\ncheckpoint_records = 20")
    state, bundle = daemon.state, tmp_path / "evidence.tar.gz"
    async with daemon.client() as client:
        session = await client.create_session("tester")
        sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id
        await client.run_call(session, sandbox, "first", "Bash", {"command": "true"})
        await signed(client, 1)

        async def go_on():
            for number in itertools.count():
                await client.run_call(session, sandbox, f"call-{number}", "Bash", {"command": "true"})

        going = asyncio.create_task(go_on())
        for scope in ((), ("--session", session)):
            arguments = ("--format", "evidence", *scope, "--state", state, "-o", bundle)
            await asyncio.to_thread(cli, "audit", "export", *arguments)
            await asyncio.to_thread(cli, "audit", "verify", "--evidence", bundle, "--key", state / "audit/key.pub")
        assert not going.done()
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
    assert daemon.stop() == 0


async def test_a_destination_that_fails_is_shown_and_holds_up_nothing(own_daemon):
    daemon = own_daemon(audit='checkpoint_s = 1\nship = ["syslog:/run/opensafe-test-nowhere/log"]')
    async with daemon.client() as client:
        session = await client.create_session("tester")
        while not (ships := (await client.status()).ships)[0].failures:  # noqa: ASYNC110 - a status tells when asked
            await asyncio.sleep(0.1)
        assert ships[0].error == "No such file or directory"
        assert (await client.decide(session, "Bash", {"command": "ls"})).action == "allow"
    told, _ = await asyncio.to_thread(
        cli, "doctor", "--config", daemon.settings, "--principal", "agent", "--json", status=1
    )
    [check] = [one for one in json.loads(told)["details"]["checks"] if one["name"].startswith("ship ")]
    assert (check["name"], check["ok"]) == ("ship syslog:/run/opensafe-test-nowhere/log", False)
    assert check["value"] == "No such file or directory"
    assert "checkpoints don't reach syslog:/run/opensafe-test-nowhere/log" in daemon.log.read_text()
    assert daemon.stop() == 0
