"""Nothing starts without a decision on record that allows exactly it, and each decision serves once."""

import errno
import json
import os

import msgspec
import pytest

from opensafe.errors import AuditError, InvalidArgument, NotFound, UnknownUser, WardenRefused
from opensafe.model.chain import verify
from opensafe.model.decision import Grant, PathGrant
from opensafe.model.ids import new_id
from opensafe.model.sandbox import SandboxSpec, User
from opensafe.normalize.tools import DEFAULT_REGISTRY, MAX_ARGV_ENV
from opensafe.warden.protocol import RecordRef
from opensafe.warden.syncing import Syncer
from tests.system.warden.support import DIGEST

NOBODY = User(name="nobody", uid=65534, gid=65534, home="/nonexistent")

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def refused(box, launch, decision, match, error=WardenRefused):
    with pytest.raises(error, match=match):
        await box.start(launch, decision)


async def test_the_benign_twin_is_allowed(box, front):
    launch = box.launch("true")
    running = await box.start(launch, front.decide(launch))
    assert (await running.end()).ended.value == 0


@pytest.mark.parametrize("file", ["segment-", "ledger"])
async def test_what_the_warden_cannot_make_durable_starts_nothing(box, front, warden, monkeypatch, file):
    launch = box.launch("touch", f"/tmp/started-{file}")
    decision = front.decide(launch)
    real = os.fdatasync

    def refuse(descriptor):
        if file in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", refuse)
            error = AuditError if file == "ledger" else WardenRefused
            await refused(box, launch, decision, "can't be made durable", error)
    finally:  # a disk does not mend itself; this one was never broken
        warden._segments._syncers.clear()
        warden._ledger._syncer = Syncer(warden._ledger._file, "ledger")
    assert (await box.run("test", "-e", f"/tmp/started-{file}")).ended.value == 1
    await refused(box, launch, decision, "used before")  # the entry that was to be synced has spent it
    again = box.launch("touch", f"/tmp/started-{file}")
    assert (await (await box.start(again, front.decide(again))).end()).ended.value == 0
    assert (await box.run("test", "-e", f"/tmp/started-{file}")).ended.value == 0


async def test_a_decision_serves_once(box, front):
    launch = box.launch("true")
    decision = front.decide(launch)
    await (await box.start(launch, decision)).end()
    again = msgspec.structs.replace(launch, exec_id=new_id("exec"))
    await refused(box, again, decision, "something else")
    # The same launch once more is a repeated id as well; a sandbox shows the leaf alone.
    spec = SandboxSpec(sandbox_id=new_id("sb"), image_digest=DIGEST)
    decision = front.decide(spec)
    await box.client.create_sandbox(spec, decision)
    await box.client.delete_sandbox(spec.sandbox_id)
    with pytest.raises(WardenRefused, match="used before"):
        await box.client.create_sandbox(spec, decision)


@pytest.mark.parametrize("action", ["review", "block", "ALLOW", ""])
async def test_another_action_is_refused(box, front, action):
    launch = box.launch("true")
    await refused(box, launch, front.decide(launch, action), "does not allow")


async def test_a_forged_leaf_is_refused(box, front):
    launch = box.launch("true")
    decision = msgspec.structs.replace(front.decide(launch), leaf="ab" * 32)
    await refused(box, launch, decision, "another hash")


@pytest.mark.parametrize("change", ["argv", "env", "cwd", "profile", "limits", "exec_id", "user"])
async def test_anything_altered_after_the_decision_is_refused(box, front, change):
    launch = box.launch("true")
    decision = front.decide(launch)
    replace = msgspec.structs.replace
    altered = {
        "argv": replace(launch, program=replace(launch.program, argv=("id",))),
        "env": replace(launch, program=replace(launch.program, env={"PATH": "/tmp"})),
        "cwd": replace(launch, program=replace(launch.program, cwd="/")),
        "profile": replace(launch, profile="file"),
        "limits": replace(launch, limits=replace(launch.limits, processes=255)),
        "exec_id": replace(launch, exec_id=new_id("exec")),
        "user": replace(launch, user=NOBODY),
    }[change]
    await refused(box, altered, decision, "something else")


async def test_a_user_starts_as_the_image_has_it_and_the_grant_names_it_and_not_otherwise(box, front):
    """Also where the record itself was made by a front under an attacker's control."""
    for user, granted, match in (
        (NOBODY, (), "does not grant"),
        (NOBODY, ("root",), "does not grant"),
        (msgspec.structs.replace(NOBODY, uid=0), ("root", "nobody"), "another one"),
        (msgspec.structs.replace(NOBODY, gid=0), ("nobody",), "another one"),
        (msgspec.structs.replace(NOBODY, groups=(0,)), ("nobody",), "another one"),
    ):
        launch = msgspec.structs.replace(box.launch("id", "-u"), user=user)
        await refused(box, launch, front.decide(launch, users=granted), match)
    invented = User(name="nosuch", uid=1000, gid=1000)
    launch = msgspec.structs.replace(box.launch("id", "-u"), user=invented)
    with pytest.raises(UnknownUser):
        await box.start(launch, front.decide(launch, users=("nosuch",)))
    launch = msgspec.structs.replace(box.launch("id", "-u"), user=NOBODY)
    done = await (await box.start(launch, front.decide(launch, users=("nobody",)))).end()
    assert (done.ended.value, done.out) == (0, b"65534\n")


DECIDED, OTHER = b"what was judged", b"what was not.."


@pytest.mark.parametrize(
    ("sent", "status", "content"),
    [
        (DECIDED, 0, DECIDED),
        (OTHER, 17, b"old"),
        (DECIDED[:-1], 17, b"old"),
        (b"", 17, b"old"),
        (DECIDED + b"!", 13, b"old"),
    ],
    ids=["benign-twin", "equal-size", "short", "empty", "long"],
)
async def test_t12_a_decided_write_takes_no_other_content(box, front, sent, status, content):
    """What runs is the decided program; only the bytes are the front's choice."""
    await box.sh("printf old > /workspace/decided")
    arguments = json.dumps({"path": "/workspace/decided", "content": DECIDED.decode()}).encode()
    call = DEFAULT_REGISTRY.validate("call", "Write", arguments, MAX_ARGV_ENV)
    program = DEFAULT_REGISTRY.program(call, Grant(paths=PathGrant(write=("/workspace",))))
    done = await box.run(*program.argv, stdin=sent, profile="file")
    assert (done.ended.kind, done.ended.value) == ("exited", status)
    assert (b"not what was decided" in done.err) == (status == 17)
    assert (await box.sh("cat /workspace/decided; ls -A /workspace | grep -c opensafe")).out == content + b"0\n"


async def test_a_decision_about_nothing_is_refused(box, front):
    await refused(box, box.launch("true"), front.decide(None), "something else")


async def test_another_kind_of_record_is_refused(box, front):
    launch = box.launch("true")
    record = {"kind": "outcome", "subject": launch.subject_digest(), "result": {"action": "allow"}}
    await refused(box, launch, front.write(record), "does not allow")


@pytest.mark.parametrize("record", [{"kind": "decision"}, {"kind": "decision", "result": "allow"}, {"kind": 1}])
async def test_a_record_of_another_shape_is_refused(box, front, record):
    await refused(box, box.launch("true"), front.write(record), "no decision")


@pytest.mark.parametrize(("offset", "length"), [(1, -1), (0, -1), (0, 1), (1 << 40, 0), (-3, 0)])
async def test_a_place_that_is_not_one_whole_line_is_refused(box, front, offset, length):
    front.decide(None)
    launch = box.launch("true")
    ref = front.decide(launch)
    moved = RecordRef(segment=0, offset=ref.offset + offset, length=ref.length + length, leaf=ref.leaf)
    await refused(box, launch, moved, "no decision")


async def test_a_segment_that_does_not_exist_is_refused(box, front):
    launch = box.launch("true")
    await refused(box, launch, msgspec.structs.replace(front.decide(launch), segment=1), "no such audit segment")


async def test_a_sandbox_needs_its_own_decision(client, front, box):
    spec = SandboxSpec(sandbox_id=new_id("sb"), image_digest=DIGEST)
    with pytest.raises(WardenRefused):
        await client.create_sandbox(spec, front.decide(box.launch("true")))


@pytest.mark.parametrize("sandbox_id", ["../../../etc", "sb-1", "", "sb-" + "g" * 20, "/", "exec-0123456789abcdef0123"])
async def test_a_sandbox_id_that_is_no_id_is_refused(client, front, sandbox_id):
    spec = SandboxSpec(sandbox_id=sandbox_id, image_digest=DIGEST)
    with pytest.raises(InvalidArgument):
        await client.create_sandbox(spec, front.decide(spec))


@pytest.mark.parametrize(
    "changes",
    [
        {"argv": ()},
        {"argv": ("",)},
        {"argv": ("a\0b",)},
        {"cwd": "relative"},
        {"env": {"A=B": "c"}},
        {"env": {"": "c"}},
        {"env": {"A": "\0"}},
    ],
)
async def test_r32_what_exec_could_not_carry_is_refused_before_it_is_on_record(box, front, client, changes):
    launch = box.launch("true")
    launch = msgspec.structs.replace(launch, program=msgspec.structs.replace(launch.program, **changes))
    before = (await client.status()).ledger_size
    with pytest.raises(InvalidArgument):
        await box.start(launch, front.decide(launch))
    assert (await client.status()).ledger_size == before


async def test_an_unknown_sandbox_and_profile_are_refused(box, front):
    launch = msgspec.structs.replace(box.launch("true"), sandbox_id=new_id("sb"))
    with pytest.raises(NotFound):
        await box.start(launch, front.decide(launch))
    launch = msgspec.structs.replace(box.launch("true"), profile="none")
    with pytest.raises(InvalidArgument, match="no such seccomp profile"):
        await box.start(launch, front.decide(launch))


async def test_the_ledger_names_the_decision_of_every_start(box, front, host):
    launch = box.launch("true")
    decision = front.decide(launch)
    await (await box.start(launch, decision)).end()
    lines = (host.layout.state / "ledger.jsonl").read_bytes().splitlines()
    [start] = [
        link.record
        for link in verify(lines)
        if link.record["exec_id"] == launch.exec_id and link.record["kind"] == "start"
    ]
    assert start["leaf"] == decision.leaf
    assert start["subject"] == launch.subject_digest()
    assert start["sandbox_id"] == box.spec.sandbox_id
    assert (host.layout.state / "ledger.jsonl").stat().st_mode & 0o777 == 0o640
