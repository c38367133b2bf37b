"""The world itself: each server answers, and what happened is on record. No sandbox takes part."""

import asyncio
import os
import pathlib
import sys

import pytest

from opensafe.proof.world import Kind, plan, site

pytestmark = [pytest.mark.root, pytest.mark.asyncio(loop_scope="module")]


async def python(world, program, *arguments):
    outcome = await world.plain([sys.executable, "-I", "-c", program, *arguments])
    assert outcome.returncode == 0, outcome.stderr.decode()
    return outcome.stdout.decode()


async def curl(world, *words):
    outcome = await world.plain(["curl", "-sS", "--noproxy", "*", "-m", "10", "--cacert", str(world.ca_file), *words])
    assert outcome.returncode == 0, outcome.stderr.decode()
    return outcome.stdout


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_web_servers_answer_a_name_and_record_it_as_it_was_sent(world, scheme):
    assert await curl(world, "-4", "-H", "Host: Odd.Test", f"{scheme}://{scheme}.denied.test/hello")
    request = await world.until(lambda event: event.kind is Kind.REQUEST and event.name == "Odd.Test")
    port = plan.TLS if scheme == "https" else plan.HTTP
    assert await world.until(
        lambda event: event.kind is Kind.ACCEPT and event.target == f"{plan.DENIED}:{port}"
        and event.source.startswith(f"{plan.PLAIN}:")
    )  # fmt: skip
    assert request.data == b"GET /hello HTTP/1.1"


async def test_a_connection_that_the_server_ends_leaves_nothing_to_the_next(world):
    closing = ("-4", "-H", "Connection: close")
    for scheme in ("https", "http") * 3:
        assert await curl(world, *closing, f"{scheme}://allowed.test/hello") == b"hello from the world\n"


async def test_a_reading_tells_what_passed_since_the_last_one_also_of_a_long_flow(world, tmp_path):
    program = (
        "import socket, sys\n"
        "with socket.create_connection((sys.argv[1], 6379)) as peer:\n"
        "    for _ in range(50):\n"
        "        peer.sendall(b'one')\n"
        "    peer.sendall(b'ready')\n"
        "    open(sys.argv[2]).read()\n"
        "    peer.sendall(b'two')\n"
    )
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    read = len((await world.packets()).packets)

    async def sent():
        nonlocal read
        packets = (await world.packets()).packets[read:]
        read += len(packets)
        return [packet.tells for packet in packets if packet.port == 6379]

    client = asyncio.create_task(python(world, program, plan.DENIED, str(gate)))
    await world.until(lambda event: event.target == f"{plan.DENIED}:6379" and b"ready" in event.data)
    first = await sent()
    assert first[0]  # its SYN
    assert not first[1]  # an acknowledgement
    await asyncio.to_thread(gate.write_text, "go")
    await client
    await world.until(lambda event: event.target == f"{plan.DENIED}:6379" and event.kind is Kind.CLOSED)
    assert (await sent())[0]


async def test_the_name_of_a_handshake_is_on_record_also_where_the_client_gives_up(world):
    outcome = await world.plain(["curl", "-4", "-sS", "https://untrusted.denied.test/"])
    assert outcome.returncode == 60
    await world.until(lambda event: event.kind is Kind.HELLO and event.name == "untrusted.denied.test")


async def test_every_question_is_on_record_over_both_transports(world):
    program = (
        "import sys, dns.message, dns.query\n"
        "for ask in (dns.query.udp, dns.query.tcp):\n"
        "    answer = ask(dns.message.make_query(f'{ask.__name__}.secret.denied.test', 'A'), sys.argv[1], timeout=5)\n"
        "    print(answer.answer[0][0])\n"
    )
    assert (await python(world, program, plan.RESOLVER)).split() == [plan.DENIED] * 2
    for transport in ("udp", "tcp"):
        question = await world.until(lambda event: event.name == f"{transport}.secret.denied.test")  # noqa: B023 - at once
        assert (question.kind, question.transport) == (Kind.QUESTION, transport)


@pytest.mark.parametrize(
    ("name", "addresses"),
    [
        ("allowed.test", {plan.ALLOWED}),
        ("private.test", {plan.PRIVATE}),
        ("alias-private.test", {plan.PRIVATE}),
        ("mixed-10-9-9-9.trap.test", {plan.ALLOWED, plan.PRIVATE}),
        ("x.ip-198-51-100-77.test", {"198.51.100.77"}),
    ],
)
async def test_names_have_the_addresses_of_the_plan(world, name, addresses):
    program = "import socket, sys; print(*{i[4][0] for i in socket.getaddrinfo(sys.argv[1], 80, socket.AF_INET)})"
    assert set((await python(world, program, name)).split()) == addresses


async def test_a_name_that_rebinds_has_another_address_the_second_time(world):
    program = "import socket; print(socket.gethostbyname('rebind-10-9-9-9.trap.test'))"
    assert [(await python(world, program)).strip() for _ in range(2)] == [plan.ALLOWED, plan.PRIVATE]


async def test_a_name_that_is_not_there_is_not_found(world):
    assert (await world.plain(["curl", "-sS", "http://nowhere.invalid/"])).returncode == 6


@pytest.mark.parametrize("address", [plan.PRIVATE, "10.9.9.77", *plan.METADATA, "198.51.100.99"])
async def test_traps_and_every_address_of_the_network_answer(world, address):
    assert await curl(world, f"http://{address}/hello") == b"hello from the world\n"
    await world.until(lambda event: event.kind is Kind.ACCEPT and event.address == address)


async def test_one_server_speaks_first_and_one_only_listens(world):
    program = (
        "import socket, sys\n"
        "first = socket.create_connection((sys.argv[1], 9001)); print(first.recv(99))\n"
        "sink = socket.create_connection((sys.argv[1], 6379)); sink.sendall(b'to the sink'); sink.close()\n"
    )
    assert str(plan.BANNER_TEXT) in await python(world, program, "198.51.100.98")
    data = await world.until(lambda event: event.kind is Kind.DATA and event.target == "198.51.100.98:6379")
    assert data.data == b"to the sink"


async def test_datagrams_are_on_record_with_the_address_that_was_meant(world):
    program = "import socket, sys; socket.socket(type=socket.SOCK_DGRAM).sendto(b'one datagram', (sys.argv[1], 9999))"
    await python(world, program, "198.51.100.97")
    datagram = await world.until(lambda event: event.kind is Kind.DATAGRAM)
    assert (datagram.target, datagram.data) == ("198.51.100.97:9999", b"one datagram")


async def test_a_websocket_echoes(world):
    program = (
        "import socket\n"
        "peer = socket.create_connection(('198.51.100.10', 80)).makefile('rwb')\n"
        "peer.write(b'GET / HTTP/1.1\\r\\nHost: allowed.test\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n'\n"
        "           b'Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\\r\\n')\n"
        "peer.write(b'\\x82\\x85\\0\\0\\0\\0hello'); peer.flush()\n"
        "while (line := peer.readline().strip()): print(line)\n"
        "print(peer.read(7))\n"
    )
    said = await python(world, program)
    # The answer to the key that RFC 6455, section 1.3 gives as its example.
    assert "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in said
    assert "hello" in said


@pytest.mark.parametrize(("name", "version"), [("h2.allowed.test", "2"), ("allowed.test", "1.1")])
async def test_some_names_speak_http2(world, name, version):
    told = await curl(world, "-4", "-w", "%{http_version}", f"https://{name}/hello", f"https://{name}/hello")
    assert told == f"hello from the world\n{version}".encode() * 2


async def test_a_package_is_installed_from_its_index(world, tmp_path):
    words = ["-m", "pip", "install", "-q", "--no-cache-dir", "--target", str(tmp_path), "--index-url"]
    outcome = await world.plain([
        *("env", "-i", f"HOME={tmp_path}", "/usr/bin/python3", *words, "http://pypi.test/simple/"),
        *("--trusted-host", "pypi.test", "worldly"),
    ])  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr.decode()
    assert site.GREETING in (tmp_path / "worldly.py").read_text()


async def test_a_repository_is_cloned(world, tmp_path):
    outcome = await world.plain([
        *("env", f"GIT_SSL_CAINFO={world.ca_file}", "git", "clone", "-q"),
        *(f"https://git.test{site.REPOSITORY}", str(tmp_path / "clone")),
    ])  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr.decode()
    assert (tmp_path / "clone/README").read_text() == site.README


async def test_uploads_are_counted(world, tmp_path):
    (tmp_path / "much").write_bytes(bytes(1 << 20))
    assert b'"received":1048576' in await curl(world, "-T", str(tmp_path / "much"), "http://198.51.100.96/upload")
    closed = await world.until(lambda event: event.kind is Kind.CLOSED and event.address == "198.51.100.96")
    assert closed.size > 1 << 20


async def test_a_packet_that_nobody_answers_is_in_the_capture(world):
    program = (
        "import socket, sys\n"
        "one = socket.socket(); one.settimeout(0.2)\n"
        "try: one.connect((sys.argv[1], 4711))\n"
        "except OSError: pass\n"
    )
    await python(world, program, plan.SILENT)
    capture = await world.packets()
    seen = [packet for packet in capture.packets if (packet.target, packet.port) == (plan.SILENT, 4711)]
    assert capture.lost == 0
    assert {(packet.link, packet.protocol, packet.outgoing) for packet in seen} == {("plain", "tcp", False)}
    assert seen[0].flags == 0x02  # SYN


@pytest.mark.skipif(not pathlib.Path("/proc/net/if_inet6").exists(), reason="a host without IPv6")
async def test_it_has_ipv6_as_well(world):
    assert await curl(world, "-6", "http://allowed.test/hello") == b"hello from the world\n"
    await world.until(lambda event: event.kind is Kind.ACCEPT and event.address == plan.ALLOWED6)
    assert any(
        packet.protocol == "tcp" and packet.target == plan.ALLOWED6 for packet in (await world.packets()).packets
    )


async def test_the_host_is_routed_to_it_over_the_other_link(world):
    reader, writer = await asyncio.open_connection(plan.PRIVATE, plan.BANNER)
    assert await reader.readline() == plan.BANNER_TEXT
    writer.close()
    packets = (await world.packets()).packets
    assert any((packet.link, packet.source, packet.port) == ("host", plan.HOST, plan.BANNER) for packet in packets)
