"""An evidence bundle verifies with the public key alone; whatever is done to it is found; no archive does harm."""

import gzip
import hashlib
import io
import json
import shutil
import tarfile

import msgspec
import pytest

from opensafe.audit.checkpoints import read_key
from opensafe.audit.evidence import Sources, write
from opensafe.audit.evidence_check import unpack
from opensafe.audit.scope import Scope
from opensafe.errors import AuditError
from opensafe.model import chain
from opensafe.model.canonical import canonical_json, leaf_hash
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.records import Bundle, OutcomeRecord, ShadowRecord
from tests.harness.records import decision, refusal
from tests.harness.state import State

FRAGMENT = b'{"kind":"dec'
SPAN = b'{"resourceSpans":[]}'


class Made(State):
    """A log of two segments: four calls of two sessions, of which the last one is not signed yet."""

    def __init__(self, path):
        super().__init__(path)
        self.digest = self.bundle(b"policy")
        (path / "keys" / f"{'ab' * 32}.pub").write_text("key")
        for number in range(3):
            self.call(number)
            if number == 1:
                self.turn()
        self.sign()
        self.call(3)

    def call(self, number):
        ids = {"decision_id": f"dec-{number}", "session_id": f"ses-{number % 2}"}
        traced = {"call_id": f"call-{number}", "trace_id": f"{number:032}"}
        subject, run = f"{number:064}", f"ex-{number}"
        bundles = {"opensafe": Bundle(revision="r", digest=self.digest)}
        leaf = self.record(decision(exec_id=run, subject=subject, bundles=bundles, **ids, **traced))
        candidate = Bundle(revision="c", digest="00")
        shadow = {"candidate": candidate, "enforced": Action.ALLOW, "action": Action.BLOCK, "rules": ()}
        self.record(msgspec.convert(ids | shadow | {"kind": "shadow", "time_us": 1}, ShadowRecord))
        self.entry("start", leaf=leaf, subject=subject, sandbox_id="sb-1", exec_id=run)
        ended = Outcome(kind=OutcomeKind.EXITED, exit_code=0, run_ns=5)
        fields = ids | traced | {"kind": "outcome", "time_us": 2, "outcome": ended}
        self.record(msgspec.convert(fields, OutcomeRecord))

    def export(self, output, **scope):
        sources = Sources(
            keys=sorted((self.path / "keys").glob("*.pub")),
            bundle=lambda digest: self.path / "bundles" / f"{digest}.tar.gz",
            traces=lambda traces: [SPAN + b" " + ",".join(sorted(traces)).encode()],
        )
        return write(self.path, Scope(**scope), output, sources, "1.2.3")


@pytest.fixture
def state(tmp_path):
    return Made(tmp_path / "state")


@pytest.fixture
def key(state, tmp_path):
    """The public key, as it was kept elsewhere."""
    return read_key(shutil.copy(state.key, tmp_path / "key.pub"))


@pytest.fixture(params=[{}, {"session": "ses-0"}, {"call": "call-1"}], ids=["whole", "session", "call"])
def scope(request):
    return request.param


@pytest.fixture
def bundle(state, scope, tmp_path):
    state.export(tmp_path / "evidence.tar.gz", **scope)
    return tmp_path / "evidence.tar.gz"


@pytest.fixture
def part(state, tmp_path):
    state.export(tmp_path / "part.tar.gz", session="ses-0")
    return tmp_path / "part.tar.gz"


def verified(path, key):
    with unpack(path, key) as evidence:
        return evidence.verify()


def found(path, key):
    return {(one.kind, one.where) for one in verified(path, key).report.findings}


def members(path):
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def pack(path, files, *, listed=True):
    """An archive of `files` as the maker would pack them, whose manifest lists them all."""
    files = dict(files)
    if listed:
        manifest = json.loads(files["manifest.json"])
        manifest["files"] = {
            name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in files.items()
            if name != "manifest.json"
        }
        files["manifest.json"] = json.dumps(manifest).encode()
    with tarfile.open(path, "w:gz", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def test_a_bundle_verifies_with_the_key_alone(state, bundle, key, scope):
    shutil.rmtree(state.path)
    done = verified(bundle, key)
    assert done.report.findings == ()
    assert done.report.ok
    assert done.checkpoint.size == 9
    assert done.report.records == {"": 9, "ses-0": 6, "call-1": 3}[scope.get("session", scope.get("call", ""))]


def test_a_bundle_holds_what_it_was_judged_by_and_its_traces(state, bundle, scope):
    files = members(bundle)
    assert files[f"bundles/{state.digest}.tar.gz"] == b"policy"
    assert files[f"keys/{'ab' * 32}.pub"] == b"key"
    assert files["ledger.jsonl"] == (state.path / "ledger.jsonl").read_bytes()
    traces = {"": (0, 1, 2), "ses-0": (0, 2), "call-1": (1,)}[scope.get("session", scope.get("call", ""))]
    assert files["traces.jsonl"] == SPAN + b" " + ",".join(f"{one:032}" for one in traces).encode() + b"\n"
    assert list(files) == [*sorted(set(files) - {"manifest.json"}), "manifest.json"]


def test_what_was_not_signed_yet_is_left_out_and_said(state, bundle, scope, tmp_path):
    manifest = json.loads(members(bundle)["manifest.json"])
    assert manifest["unsigned"] == {"": 3, "ses-0": 0, "call-1": 0}[scope.get("session", scope.get("call", ""))]
    assert b"call-3" not in b"".join(data for name, data in members(bundle).items() if name != "ledger.jsonl")
    with pytest.raises(AuditError, match="no signed record"):
        state.export(tmp_path / "none", call="call-3")
    assert not (tmp_path / "none").exists()


def test_the_same_state_makes_the_same_bytes(state, bundle, scope, tmp_path):
    state.export(tmp_path / "again", **scope)
    assert (tmp_path / "again").read_bytes() == bundle.read_bytes()
    assert bundle.stat().st_mode & 0o777 == 0o600


def test_another_key_verifies_nothing(bundle, tmp_path):
    other = State(tmp_path / "other")
    assert ("not_signed", "checkpoint") in found(bundle, read_key(other.key))


def _records_of(files):
    return [name for name in files if name == "records.jsonl" or name.startswith("audit/segment")]


def _changed_record(files):
    name = _records_of(files)[0]
    files[name] = files[name].replace(b'"exit_code":0', b'"exit_code":1', 1)
    return {("chain_broken", "audit"), ("not_in_log", "audit")}


def _dropped_last(files):
    name = _records_of(files)[-1]
    files[name] = b"".join(files[name].splitlines(keepends=True)[:-1])
    return {("shorter_than_signed", "audit"), ("not_in_log", "audit")}


def _inserted(files):
    name = _records_of(files)[-1]
    lines = files[name].splitlines()
    last = json.loads(lines[-1])
    sealed = chain.seal(chain.Head(last["index"] + 1, "0" * 64), refusal(9))
    files[name] += sealed.line + b"\n"
    return {("chain_broken", "audit"), ("not_signed", "audit"), ("not_in_log", "audit")}


def _swapped(files):
    name = _records_of(files)[0]
    lines = files[name].splitlines(keepends=True)
    lines[0], lines[1] = lines[1], lines[0]
    files[name] = b"".join(lines)
    return {("chain_broken", "audit"), ("not_in_log", "audit")}


def _changed_ledger(files):
    files["ledger.jsonl"] = files["ledger.jsonl"].replace(b"ex-0", b"ex-9", 1)
    return {("chain_broken", "ledger")}


def _cut_ledger(files):
    files["ledger.jsonl"] = files["ledger.jsonl"].splitlines(keepends=True)[0]
    return {("shorter_than_signed", "ledger")}


def _forged_ledger(files):
    """Written anew as a whole: another subject was started."""
    head, lines = chain.Head(), []
    for line in files["ledger.jsonl"].splitlines():
        entry = {key: value for key, value in json.loads(line).items() if key not in ("index", "prev")}
        sealed = chain.seal(head, entry | {"subject": "9" * 64})
        head = sealed.head
        lines.append(sealed.line + b"\n")
    files["ledger.jsonl"] = b"".join(lines)
    return {("execution_not_as_decided", "ledger"), ("not_as_signed", "ledger")}


def _other_checkpoint(files):
    files["audit/checkpoint"] = files["audit/checkpoint"].replace(b"\n9\n", b"\n8\n")
    return {("not_signed", "checkpoint")}


def _changed_policy(files):
    [name] = [name for name in files if name.startswith("bundles/")]
    files[name] = b"another"
    return {("not_as_recorded", "evidence")}


def _no_policy(files):
    [name] = [name for name in files if name.startswith("bundles/")]
    del files[name]
    return {("bundle_missing", "evidence")}


CHANGES = (
    _changed_record,
    _dropped_last,
    _inserted,
    _swapped,
    _changed_ledger,
    _cut_ledger,
    _forged_ledger,
    _other_checkpoint,
    _changed_policy,
    _no_policy,
)


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_done_to_a_bundle_is_found_though_its_manifest_agrees(bundle, key, change, tmp_path):
    files = members(bundle)
    expected = change(files)
    assert found(pack(tmp_path / "changed", files), key) & expected


def test_a_member_that_the_manifest_does_not_list_as_it_is_is_found(bundle, key, tmp_path):
    files = members(bundle)
    files["traces.jsonl"] += b"{}\n"
    assert found(pack(tmp_path / "changed", files, listed=False), key) == {("not_as_listed", "evidence")}
    assert found(pack(tmp_path / "listed", files), key) == set()  # traces are the maker's word


@pytest.mark.parametrize("name", ["manifest.json", "audit/checkpoint"])
def test_a_bundle_without_its_parts_is_none(bundle, key, name, tmp_path):
    files = members(bundle)
    del files[name]
    with pytest.raises(AuditError, match="missing"):
        verified(pack(tmp_path / "changed", files, listed=name != "manifest.json"), key)


def test_records_of_a_part_need_their_proofs(state, key, tmp_path):
    state.export(tmp_path / "part", session="ses-0")
    files = members(tmp_path / "part")
    own, other = files["proofs.jsonl"], members(_exported(state, tmp_path, "ses-1"))["proofs.jsonl"]
    for proofs in (b"", other, own + other, own.replace(b'"index":0', b'"index":1')):
        assert ("not_in_log", "audit") in found(pack(tmp_path / "x", files | {"proofs.jsonl": proofs}), key)


def _exported(state, tmp_path, session):
    state.export(tmp_path / session, session=session)
    return tmp_path / session


def test_a_log_that_is_not_intact_is_no_evidence(state, tmp_path, scope):
    path = state.path / "audit" / "segment-000000.jsonl"
    path.write_bytes(path.read_bytes().replace(b"call-0", b"call-9"))
    with pytest.raises(AuditError, match="not intact"):
        state.export(tmp_path / "evidence", **scope)
    assert list(tmp_path.glob("*evidence*")) == []


def test_a_log_that_was_never_signed_is_no_evidence(tmp_path):
    state = Made(tmp_path / "state")
    (state.path / "audit" / "checkpoint").unlink()
    with pytest.raises(AuditError, match="no checkpoint"):
        state.export(tmp_path / "evidence")


@pytest.mark.parametrize("accounted", [False, True])
def test_a_fragment_behind_what_was_signed_is_left_out(state, key, tmp_path, accounted):
    path = state.path / "audit" / "segment-000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)[:3]
    torn = chain.seal_torn(chain.Head(9, leaf_hash(lines[-1][:-1])), FRAGMENT)
    path.write_bytes(b"".join(lines) + FRAGMENT + (b"\n" + torn.line + b"\n" if accounted else b""))
    state.export(tmp_path / "evidence")
    assert verified(tmp_path / "evidence", key).report.ok


def test_a_log_shorter_than_what_was_signed_is_no_evidence(state, tmp_path, scope):
    path = state.path / "audit" / "segment-000001.jsonl"
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(AuditError, match=r"shorter than what was signed|not what the checkpoint signed"):
        state.export(tmp_path / "evidence", **scope)


def test_records_behind_what_was_signed_are_found(state, key, tmp_path):
    state.export(tmp_path / "whole")
    files = members(tmp_path / "whole")
    files["audit/segment-000001.jsonl"] = (state.path / "audit" / "segment-000001.jsonl").read_bytes()
    assert found(pack(tmp_path / "x", files), key) == {("not_signed", "audit")}


class Hostile:
    """Archives that no maker makes. Each has the members of a good one before it."""

    def __init__(self, files):
        self.files = files

    def tar(self, *entries, form=tarfile.USTAR_FORMAT):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
            for entry, data in entries:
                archive.addfile(entry, io.BytesIO(data))
            for name, data in self.files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
        return buffer.getvalue()

    def named(self, name, data=b"x", **fields):
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        for key, value in fields.items():
            setattr(entry, key, value)
        return entry, data


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "../escape"},
        {"name": "/etc/passwd"},
        {"name": "audit/../../escape"},
        {"name": "bundles/../ledger.jsonl"},
        {"name": "audit/segment-000000.jsonl\n"},
        {"name": "surprise"},
        {"name": ""},
        {"name": "traces.jsonl", "type": tarfile.SYMTYPE, "linkname": "/etc/passwd", "data": b""},
        {"name": "traces.jsonl", "type": tarfile.LNKTYPE, "linkname": "ledger.jsonl", "data": b""},
        {"name": "audit", "type": tarfile.DIRTYPE, "data": b""},
        {"name": "traces.jsonl", "type": tarfile.FIFOTYPE, "data": b""},
        {"name": "traces.jsonl", "type": tarfile.CHRTYPE, "data": b""},
        {"name": "traces.jsonl", "type": tarfile.CONTTYPE},
        {"name": "traces.jsonl", "linkname": "/etc/passwd"},
        {"name": "ledger.jsonl"},  # a second time
        {"name": "traces.jsonl", "size": 1 << 33, "data": b""},
        {"name": "traces.jsonl", "size": 5 << 30, "data": b""},
    ],
)
def test_a_hostile_member_is_refused(part, key, entry, tmp_path):
    files = members(part)
    if entry["name"] != "ledger.jsonl":
        files.pop(entry["name"], None)
    hostile = Hostile(files)
    fields = {key: value for key, value in entry.items() if key in ("type", "linkname")}
    made = hostile.named(entry["name"], entry.get("data", b"x"), **fields)
    plain = hostile.tar(made)
    if "size" in entry:
        header = bytearray(plain[:512])
        header[124:136] = b"%011o\0" % entry["size"] if entry["size"] < 1 << 33 else b"\x80" + (1 << 40).to_bytes(11)
        header[148:156] = b"%06o\0 " % (sum(header[:148]) + 256 + sum(header[156:]))
        plain = bytes(header) + plain[512:]
    (tmp_path / "hostile").write_bytes(gzip.compress(plain))
    with pytest.raises(AuditError, match="refused"):
        verified(tmp_path / "hostile", key)
    assert not (tmp_path.parent / "escape").exists()


def _first_size(plain):
    return int(plain[124:135], 8)


@pytest.mark.parametrize(
    "make",
    [
        lambda good: good[:1000],
        lambda good: good[:700],
        lambda good: good + b"x" * 512,
        lambda good: good + bytes(1 << 20),
        lambda good: bytes(1 << 20),
        lambda good: b"",
        lambda good: b"\xff" * 512 + good,
        lambda good: good[:148] + b"0000000\0" + good[156:],
        lambda good: good[:512] + b"x" * 512 + good[512:],
        lambda good: good[: 512 + _first_size(good)] + b"x" + good[512 + _first_size(good) + 1 :],
    ],
)
def test_a_damaged_archive_is_refused(part, key, make, tmp_path):
    good = Hostile(members(part)).tar()
    (tmp_path / "good").write_bytes(gzip.compress(good))
    assert verified(tmp_path / "good", key).report.ok
    (tmp_path / "damaged").write_bytes(gzip.compress(make(good)))
    with pytest.raises(AuditError):
        verified(tmp_path / "damaged", key)


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_an_extended_header_is_refused_unread(part, key, form, tmp_path):
    hostile = Hostile(members(part))
    (tmp_path / "hostile").write_bytes(gzip.compress(hostile.tar(hostile.named("x" * 300), form=form)))
    with pytest.raises(AuditError, match="no plain file"):
        verified(tmp_path / "hostile", key)


@pytest.mark.parametrize("data", [b"", b"no gzip", b"\x1f\x8b\x08\x00", gzip.compress(b"x" * 2000)[:-8]])
def test_what_is_no_archive_is_refused(key, data, tmp_path):
    (tmp_path / "none").write_bytes(data)
    with pytest.raises(AuditError):
        verified(tmp_path / "none", key)
    with pytest.raises(AuditError):
        verified(tmp_path / "not there", key)


def test_a_bomb_is_refused_before_it_is_unpacked(part, key, tmp_path, monkeypatch):
    monkeypatch.setattr("opensafe.audit.archive.MAX_BYTES", 1 << 16)
    files = members(part) | {"traces.jsonl": bytes(1 << 17)}
    with pytest.raises(AuditError, match="65536 bytes"):
        verified(pack(tmp_path / "bomb", files, listed=False), key)


def test_evidence_beyond_the_cap_is_not_written(state, tmp_path, monkeypatch):
    monkeypatch.setattr("opensafe.audit.archive.MAX_BYTES", 1000)
    with pytest.raises(AuditError, match="larger"):
        state.export(tmp_path / "evidence")
    assert list(tmp_path.glob("*evidence*")) == []


def test_a_part_in_which_an_index_is_forged_is_found(state, key, tmp_path):
    state.export(tmp_path / "part", call="call-1")
    files = members(tmp_path / "part")
    lines = files["records.jsonl"].splitlines()
    forged = canonical_json(msgspec.json.decode(lines[0]) | {"index": 0})
    files["records.jsonl"] = b"\n".join([forged, *lines[1:], b""])
    assert ("not_in_log", "audit") in found(pack(tmp_path / "x", files), key)
