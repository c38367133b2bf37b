"""The warden's door: what a peer under an attacker's control can send, and what comes of it."""

import asyncio
import contextlib
import os
import socket

import msgspec
import pytest
import pytest_asyncio

from opensafe.errors import InvalidArgument, NotFound, OpenSafeError, Unavailable, WardenRefused
from opensafe.model.ids import new_id
from opensafe.model.sandbox import SandboxSpec
from opensafe.warden import protocol, server, wire
from opensafe.warden.client import WardenClient
from tests.system.warden.support import DIGEST, Caller, Pipe

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Peer:
    """A peer that sends bytes as it likes."""

    def __init__(self, end: socket.socket):
        self.end = end
        self.channel = wire.Channel(end)

    async def ask(self, message, descriptors=()):
        await self.channel.send(msgspec.msgpack.encode(message), descriptors)
        return msgspec.msgpack.decode((await self.channel.receive()).data, type=protocol.Answer)

    async def is_disconnected(self) -> bool:
        async with asyncio.timeout(10):
            try:
                await self.channel.receive()
            except wire.ConnectionEndedError:
                return True
        return False


@pytest_asyncio.fixture(loop_scope="module")
async def peer(warden):
    peer = Peer(warden.connect())
    yield peer
    peer.channel.close()


STATUS = protocol.Status(request=7)


async def test_the_benign_twin_is_answered(peer):
    answer = await peer.ask(STATUS)
    assert isinstance(answer, protocol.StatusReport)
    assert answer.request == 7
    assert all(check.refused and check.control_succeeded for check in answer.checks)
    assert len(answer.checks) >= 3


@pytest.mark.parametrize(
    "packet",
    [
        b"\xc1",
        b"garbage",
        msgspec.msgpack.encode({"type": "Mount", "request": 1}),
        msgspec.msgpack.encode({"type": "Status"}),
        msgspec.msgpack.encode({"type": "Status", "request": 1, "rootfs": "/"}),
        msgspec.msgpack.encode({"type": "Status", "request": "1"}),
        msgspec.msgpack.encode({"type": "Kill", "request": 1, "exec_id": "../../x"}),
        msgspec.msgpack.encode({"type": "Done", "request": 1}),
        msgspec.msgpack.encode([]),
        b"\x81" * 100_000,
        b"\x00" * (protocol.MAX_PACKET + 1),
    ],
    ids=range(11),
)
async def test_what_is_no_request_ends_the_connection(peer, packet):
    await peer.channel.send(packet)
    assert await peer.is_disconnected()


async def test_descriptors_that_no_request_has_end_the_connection_and_are_closed(peer):
    reader, writer = os.pipe()
    await peer.channel.send(msgspec.msgpack.encode(STATUS), (writer,))
    os.close(writer)
    assert await peer.is_disconnected()
    assert os.read(reader, 1) == b""
    os.close(reader)


@pytest.mark.parametrize("count", [0, 1, 2, 4, 200])
async def test_a_start_with_another_number_of_descriptors_ends_the_connection(peer, box, count):
    reader, writer = os.pipe()
    launch = box.launch("true")
    request = protocol.Start(request=1, launch=launch, decision=box.front.decide(launch))
    await peer.channel.send(msgspec.msgpack.encode(request), (writer,) * count)
    os.close(writer)
    assert await peer.is_disconnected()
    assert os.read(reader, 1) == b""
    os.close(reader)


async def test_a_refusal_arrives_as_the_exception_that_it_was(client, front):
    spec = SandboxSpec(sandbox_id=new_id("sb"), image_digest=DIGEST)
    with pytest.raises(WardenRefused) as refusal:
        await client.create_sandbox(spec, front.decide(spec, "block"))
    assert refusal.value.value == "decision, block"
    assert refusal.value.remedy


async def test_an_error_that_nobody_foresaw_is_told_in_fixed_words(client, warden, monkeypatch):
    def secret():
        raise RuntimeError("secret of the warden")

    monkeypatch.setattr(warden, "_list", secret)
    with pytest.raises(OpenSafeError) as error:
        await client.list_sandboxes()
    assert type(error.value) is OpenSafeError
    assert "secret" not in str(error.value)
    monkeypatch.undo()
    assert await client.list_sandboxes() is not None


async def test_the_helper_may_ask_for_the_status_alone(warden, front):
    helper = WardenClient(warden.connect(server.HELPER))
    assert (await helper.status()).runsc_platform == "systrap"
    spec = SandboxSpec(sandbox_id=new_id("sb"), image_digest=DIGEST)
    for refused in (
        helper.create_sandbox(spec, front.decide(spec)),
        helper.list_sandboxes(),
        helper.kill(new_id("exec")),
        helper.look_out("hosts", [new_id("sb")]),
    ):
        with pytest.raises(WardenRefused, match="may not ask"):
            await refused
    await helper.close()


async def test_the_front_cannot_say_what_the_helper_sees(client):
    with pytest.raises(WardenRefused, match="may not ask"):
        await client.next_look(0, None)
    with pytest.raises(NotFound, match="no way out"):  # the control: it may ask
        await client.look_out("hosts", [new_id("sb")])


async def test_a_wait_holds_up_nothing(box, client):
    running = await box.start(box.launch("cat"))
    waiting = asyncio.create_task(client.wait(running.launch.exec_id))
    assert (await client.status()).programs >= 1
    assert not waiting.done()
    running.end_input()
    assert (await waiting).kind == "exited"
    await running.drain()


async def test_a_connection_that_ends_fails_what_waits_on_it(warden, box, front):
    end = warden.connect()
    other = WardenClient(end)
    theirs = Caller(other, front)
    theirs.spec = box.spec
    running = await theirs.start(theirs.launch("cat"))
    waiting = asyncio.create_task(other.wait(running.launch.exec_id))
    await other.status()
    end.shutdown(socket.SHUT_RDWR)
    with pytest.raises(Unavailable):
        await waiting
    with pytest.raises(Unavailable):
        await other.status()
    await other.close()
    running.end_input()
    await running.drain()


async def test_a_connection_ends_while_what_it_started_runs_on(peer, front, box):
    launch = box.launch("cat")
    with contextlib.ExitStack() as stack:
        pipes = [stack.enter_context(contextlib.closing(Pipe())) for _ in range(3)]
        start = protocol.Start(request=1, launch=launch, decision=front.decide(launch))
        await peer.channel.send(msgspec.msgpack.encode(start), (pipes[0].reader, pipes[1].writer, pipes[2].writer))
        peer.end.shutdown(socket.SHUT_WR)  # while the start is under way
        answer = msgspec.msgpack.decode((await peer.channel.receive()).data, type=protocol.Answer)
        assert isinstance(answer, protocol.Started)
        assert await peer.is_disconnected()
        os.write(pipes[0].writer, b"still here")
        assert await asyncio.to_thread(os.read, pipes[1].reader, 64) == b"still here"


async def test_r31_arguments_of_a_whole_packet_arrive_and_larger_ones_are_refused(box):
    large = ("x" * 100_000,) * 4
    assert (await box.run("bash", "-c", "cat /proc/$$/cmdline | wc -c", *large)).text.strip() > "400000"
    with pytest.raises(OpenSafeError, match="too large"):
        await box.run("true", *large, "y" * 130_000)


async def test_many_requests_at_once(client):
    answers = await asyncio.gather(*(client.status() for _ in range(500)))
    assert len(answers) == 500


async def test_fifty_programs_at_once(box):
    done = await asyncio.gather(*(box.sh(f"exit {n}") for n in range(50)))
    assert [one.ended.value for one in done] == list(range(50))


async def test_nothing_in_the_protocol_can_leave_out_the_filter_or_name_a_host_path():
    """The self-test's unfiltered control and OCI fields have no words here."""
    words = set()

    def collect(kind):
        for field in msgspec.structs.fields(kind):
            words.add(field.encode_name)
            if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
                collect(field.type)

    for request in protocol.Request.__args__:
        collect(request)
    assert words == {
        "request",
        "spec",
        "decision",
        "require_warm",
        "sandbox_id",
        "launch",
        "exec_id",
        "segment",
        "offset",
        "length",
        "leaf",
        "template",
        "user",
        "image_digest",
        "network",
        "limits",
        "memory_bytes",
        "pids",
        "cpu_millis",
        "workspace_bytes",
        "tmp_bytes",
        "shm_bytes",
        "root_overlay_bytes",
        "program",
        "profile",
        "terminal",
        "columns",
        "rows",
        "signal",
        "whole_tree",
        "argv",
        "env",
        "cwd",
        "wall_ms",
        "output_bytes",
        "processes",
        "address_space_bytes",
        "file_size_bytes",
        "open_files",
        # The way out: addresses by pattern, which must be a sandbox's or global, and what goes on record.
        "addresses",
        "seconds",
        "address",
        "port",
        "connections",
        "endpoints",
        # Looks at it: of sandboxes, a host by name that is asked about and not reached, and what was seen.
        "what",
        "sandbox_ids",
        "host",
        "looked",
        "sight",
        # Bundles: numbers, a SHA-256 by pattern, and an error text that is passed on.
        "after",
        "digest",
        "swap",
        "finished",
        "error",
    }  # fmt: skip - a list of words


@pytest.mark.parametrize("path", ["/", "/dev/null", "/etc/passwd"])
async def test_a_stream_that_is_no_pipe_is_refused(box, client, path):
    """A directory of the host given as standard input would be the guest's."""
    launch = box.launch("true")
    other = os.open(path, os.O_RDONLY)
    reader, writer = os.pipe()
    with pytest.raises(InvalidArgument, match="pipes"):
        await client.start(launch, box.front.decide(launch), other, writer, writer)
    for descriptor in (other, reader, writer):
        os.close(descriptor)


async def test_a_sandbox_that_is_being_made_can_neither_be_used_nor_deleted(client, front):
    spec = SandboxSpec(sandbox_id=new_id("sb"), image_digest=DIGEST)
    making = asyncio.create_task(client.create_sandbox(spec, front.decide(spec)))
    while not making.done():
        with contextlib.suppress(NotFound):
            await client.delete_sandbox(spec.sandbox_id)
            assert making.done()
            return
    await making
    await client.delete_sandbox(spec.sandbox_id)
