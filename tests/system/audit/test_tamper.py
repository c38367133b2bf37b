"""Whatever is done to a signed log is found, at the right record, with the public key alone. Each check is needed."""

import asyncio
import contextlib
import json
import random
import shutil
import subprocess
import sys

import pytest

from opensafe.audit.checkpoints import read_key, read_note
from opensafe.audit.segment import segment_paths
from opensafe.audit.verify import verify_state
from opensafe.model import chain
from opensafe.model.canonical import canonical_json, leaf_hash
from tests.harness.daemon import Daemon

pytestmark = [pytest.mark.root, pytest.mark.runsc]

TRIES = 1000


class Recorded:
    """A state directory in which a daemon has judged calls in two lives, with a checkpoint kept from between them."""

    def __init__(self, keep):
        self.keep = keep
        self.daemon = Daemon(audit="checkpoint_s = 1\ncheckpoint_records = 4")

    async def live(self, name):
        self.daemon.start()
        async with self.daemon.client() as client:
            session = await client.create_session("tester")
            sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id
            for number, command in enumerate(("echo one", "curl evil.example.com", "ls")):
                await client.run_call(session, sandbox, f"{name}-{number}", "Bash", {"command": command})
                await asyncio.sleep(1.1)  # a checkpoint is due
            await client.close_session(session)
        assert self.daemon.stop() == 0

    async def make(self):
        await self.live("first")
        shutil.copy(self.daemon.state / "audit/checkpoint", self.keep / "kept")
        shutil.copy(self.daemon.state / "audit/key.pub", self.keep / "key.pub")
        await self.live("second")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """What was put elsewhere: the public key, and a checkpoint of the first life."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def recorded(kept):
    made = Recorded(kept)
    try:
        asyncio.run(made.make())
        yield made.daemon.state
    finally:
        assert made.daemon.remove() == []


@pytest.fixture
def copy(recorded, tmp_path):
    target = tmp_path / "state"
    shutil.copytree(recorded, target, ignore=shutil.ignore_patterns("front"))
    return target


def log(state):
    return segment_paths(state)[0]


def found(state, kept, notes=()):
    return verify_state(state, key=read_key(kept / "key.pub"), notes=notes).findings


def cli(*words):
    command = [sys.executable, "-m", "opensafe.cli", "audit", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def edit(lines, at, draw):
    """A record that says something else, and is canonical all the same."""
    record = json.loads(lines[at])
    record["time_us"] += 1 + draw.randrange(1000)
    lines[at] = canonical_json(record)
    return at


def scribble(lines, at, draw):
    """One byte of a line."""
    line = bytearray(lines[at])
    line[draw.randrange(len(line))] ^= 1 << draw.randrange(7)
    lines[at] = bytes(line)
    return at


def drop(lines, at, draw):
    del lines[at]
    return at


def swap(lines, at, draw):
    at = min(at, len(lines) - 2)
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
    return at


def insert(lines, at, draw):
    """A record of one's own, bound to the one before."""
    before = chain.Head(at, leaf_hash(lines[at - 1])) if at else chain.Head()
    lines.insert(
        at, chain.seal(before, {"kind": "daemon", "time_us": 1, "state": "x", "version": "", "bundles": {}}).line
    )
    return at + 1  # the record that stood there is out of place now


def duplicate(lines, at, draw):
    lines.insert(at + 1, lines[at])
    return at + 1


def cut(lines, at, draw):
    del lines[at:]
    return at


def rewrite(lines, at, draw):
    """All from one record on written anew, as whoever owns the file can."""
    head = chain.Head(at, leaf_hash(lines[at - 1])) if at else chain.Head()
    for number in range(at, len(lines)):
        record = {key: value for key, value in json.loads(lines[number]).items() if key not in ("index", "prev")}
        record["time_us"] += 1
        sealed = chain.seal(head, record)
        lines[number], head = sealed.line, sealed.head
    return at


CHANGES = (edit, scribble, drop, swap, insert, duplicate, cut, rewrite)


def test_what_was_recorded_verifies(recorded, kept):
    done = cli("verify", "--state", recorded, "--key", kept / "key.pub", "--checkpoint", kept / "kept", "--json")
    summary = json.loads(done.stdout)["summary"]
    assert (done.returncode, summary["findings"]) == (0, 0)
    assert summary["signed_records"] == summary["records"]
    assert summary["checkpoints"] >= 6


def test_a_thousand_changes_are_all_found_where_they_are(copy, kept):
    """Edit, drop, swap, insert and duplicate at their record; a cut where the log ends; what was written anew within
    the records of the first checkpoint that does not hold any more.
    """
    draw = random.Random(20261130)
    whole = log(copy).read_bytes().splitlines()
    signed = sorted({0, *sizes(copy)})
    for number in range(TRIES):
        change = CHANGES[number % len(CHANGES)]
        lines = list(whole)
        bad = change(lines, draw.randrange(len(lines)), draw)
        log(copy).write_bytes(b"".join(line + b"\n" for line in lines))
        seen = [one for one in found(copy, kept) if one.where == "audit"]
        told = f"{change.__name__} {bad}: {seen}"
        broken = any(one.kind == "chain_broken" for one in seen)
        if change is rewrite or (change in (edit, scribble) and bad == len(whole) - 1 and not broken):
            places = [one.index for one in seen if one.kind == "not_as_signed"]
            assert places == [max(size for size in signed if size <= bad)], told
        else:
            kinds = ("chain_broken", "shorter_than_signed")
            assert [one.index for one in seen if one.kind in kinds] == [bad], told
    log(copy).write_bytes(b"".join(line + b"\n" for line in whole))
    assert not found(copy, kept)


def sizes(state):
    notes = [json.loads(line)["note"] for line in (state / "audit/checkpoints.jsonl").read_text().splitlines()]
    return [int(note.split("\n")[1]) for note in notes]


def test_cp15_a_tail_cut_together_with_what_was_signed_of_it_shows_against_a_kept_checkpoint(copy, kept):
    for name in ("checkpoint", "checkpoints.jsonl"):
        (copy / "audit" / name).unlink()
    whole = log(copy).read_bytes().splitlines(keepends=True)
    size = int(read_note(kept / "kept").split(b"\n")[1])
    log(copy).write_bytes(b"".join(whole[: size - 1]))
    assert ("shorter_than_signed", size - 1) in {
        (one.kind, one.index) for one in found(copy, kept, [read_note(kept / "kept")])
    }
    log(copy).write_bytes(b"".join(whole[:size]))
    assert "shorter_than_signed" not in {
        one.kind for one in found(copy, kept, [read_note(kept / "kept")]) if one.where == "audit"
    }


def test_cp19_a_ledger_that_is_shorter_or_another_than_signed_is_found(copy, kept):
    ledger = copy / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:-1]))
    assert "shorter_than_signed" in {
        one.kind for one in found(copy, kept, [read_note(kept / "kept")]) if one.where == "ledger"
    }
    record = {key: value for key, value in json.loads(lines[-1]).items() if key not in ("index", "prev")}
    record["unix_us"] += 1
    head = chain.Head(len(lines) - 1, leaf_hash(lines[-2].rstrip(b"\n")))
    ledger.write_bytes(b"".join(lines[:-1]) + chain.seal(head, record).line + b"\n")
    assert ("not_as_signed", len(lines) - 1) in {
        (one.kind, one.index) for one in found(copy, kept, [read_note(kept / "kept")])
    }


@pytest.mark.parametrize("name", ["checkpoint", "checkpoints.jsonl"])
def test_a_checkpoint_that_was_changed_is_found(copy, kept, name):
    path = copy / "audit" / name
    path.write_text(path.read_text().replace("ledger ", "ledger 1", 1))
    assert "not_signed" in {one.kind for one in found(copy, kept, [read_note(kept / "kept")])}


# ── each check in turn taken away lets something through ──


def without(monkeypatch, target, replacement):
    monkeypatch.setattr(target, replacement)


@pytest.mark.parametrize(
    ("target", "replacement", "change"),
    [
        ("opensafe.audit.signed.Signed._compare", lambda self, one: None, rewrite),
        ("opensafe.audit.signed.Signed.log_ended", lambda self: None, cut),
        (
            "opensafe.model.chain._link",
            lambda line, head: chain.Link(head.size, leaf_hash(line), json.loads(line)),
            "unsigned edit",
        ),
        ("opensafe.model.checkpoint._holds", lambda body, key, made: True, "forged note"),
    ],
    ids=["root", "length", "chain", "signature"],
)
def test_each_check_is_needed(copy, kept, monkeypatch, target, replacement, change):
    lines = log(copy).read_bytes().splitlines()
    if change == "unsigned edit":
        for name in ("checkpoint", "checkpoints.jsonl"):
            (copy / "audit" / name).unlink()
        edit(lines, 0, random.Random(1))
    elif change == "forged note":
        path = copy / "audit/checkpoint"
        path.write_text(path.read_text().replace("time ", "time 1", 1))
    else:
        change(lines, len(lines) - 1, None)
    log(copy).write_bytes(b"".join(line + b"\n" for line in lines))

    def kinds():
        with contextlib.suppress(chain.ChainBrokenError):
            elsewhere = {} if change == "unsigned edit" else {"notes": [read_note(kept / "kept")]}
            return {(one.kind, one.where) for one in found(copy, kept, **elsewhere)}

    before = kinds()
    monkeypatch.setattr(target, replacement)
    assert kinds() < before


# ── proofs ──


def test_each_record_is_proven_without_the_log(recorded, kept, tmp_path):
    count = len(log(recorded).read_bytes().splitlines())
    for index in (0, 1, count // 2, count - 1):
        made = cli("prove", index, "--state", recorded, "-o", tmp_path / "proof")
        assert made.returncode == 0, made.stderr
        done = cli("verify", "--proof", tmp_path / "proof", "--key", kept / "key.pub", "--json")
        report = json.loads(done.stdout)
        assert (report["summary"]["ok"], report["summary"]["index"]) == (True, index)
        assert report["details"]["record"] == json.loads(log(recorded).read_bytes().splitlines()[index])
    assert cli("prove", count, "--state", recorded).returncode != 0


def test_growth_is_proven_without_the_log(recorded, kept, tmp_path):
    made = cli("prove", "--from", kept / "kept", "--state", recorded, "-o", tmp_path / "proof")
    assert made.returncode == 0, made.stderr
    done = cli("verify", "--proof", tmp_path / "proof", "--key", kept / "key.pub")
    assert done.returncode == 0
    assert "begins with" in done.stdout


@pytest.mark.parametrize("field", ["index", "record", "checkpoint", "path", "key"])
def test_a_proof_that_was_changed_does_not_hold(recorded, kept, tmp_path, field):
    proof = json.loads(cli("prove", 3, "--state", recorded).stdout)
    key = kept / "key.pub"
    match field:
        case "index":
            proof["index"] = 4
        case "record":
            proof["record"] = proof["record"].replace('"kind"', '"kinds"')
        case "checkpoint":
            proof["checkpoint"] = proof["checkpoint"].replace("time ", "time 1")
        case "path":
            proof["path"][0] = proof["path"][-1]
        case "key":
            key = tmp_path / "key.pub"
            key.write_text("a+f8a4e34d+AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
    (tmp_path / "proof").write_text(json.dumps(proof))
    done = cli("verify", "--proof", tmp_path / "proof", "--key", key)
    assert (done.returncode != 0, done.stdout) == (True, "")
