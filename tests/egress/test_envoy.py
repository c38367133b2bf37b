"""Envoy between a guest and a small world: what passes, what is refused, what is never dialled.

Three namespaces: guest, gateway (Envoy, its resolver, the stub that judges is on the host) and world.
"""

import asyncio
import concurrent.futures
import contextlib
import datetime as dt
import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading

import dns.message
import dns.rrset
import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from opensafe._proto.envoy import external_auth_pb2, external_auth_pb2_grpc
from opensafe.warden import kernel
from opensafe.warden.network import envoy as envoy_module
from opensafe.warden.network.envoy import Envoy
from opensafe.warden.network.envoy_config import configuration
from opensafe.warden.sandbox.layout import Layout

pytestmark = pytest.mark.root

GUEST, GATEWAY = "10.201.0.1", "10.201.0.0"
WORLD = "198.51.100.10"
ALLOWED = {"allowed.test", "banner.test"}
NATIVE = pathlib.Path(__file__).resolve().parents[2] / "build" / "native"
WAIT_S = 15


def _ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _inside(namespace, work):
    """What `work` returns in the namespace: a socket made there stays there."""
    settled: concurrent.futures.Future = concurrent.futures.Future()

    def body():
        try:
            with open(f"/run/netns/{namespace}", "rb") as file:
                kernel._check(kernel._libc.setns(file.fileno(), kernel.CLONE_NEWNET), "setns")
            settled.set_result(work())
        except OSError as error:
            settled.set_exception(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return settled.result()


def _listening(address, port):
    return socket.create_server((address, port), backlog=64)


def _certificate(directory):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "throw-away")])
    now = dt.datetime.now(dt.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName(name) for name in ("allowed.test", "denied.test")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = directory / "world.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


class World:
    """Accepts TLS (echo) on 443 and HTTP on 80, and notes each connection before it says anything."""

    def __init__(self, namespace, certificate):
        self.dialled = []
        self.requests = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._context = context
        self._sockets = {port: _inside(namespace, lambda port=port: _listening(WORLD, port)) for port in (80, 443)}

    async def serve(self):
        async with contextlib.AsyncExitStack() as stack:
            for port, handler in ((80, self._http), (443, self._tls)):
                server = await asyncio.start_server(handler, sock=self._sockets[port])
                await stack.enter_async_context(server)
            await asyncio.Event().wait()

    async def _tls(self, reader, writer):
        self.dialled.append(443)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await writer.start_tls(self._context)
            while data := await reader.read(4096):
                writer.write(b"echo " + data)
        writer.close()

    async def _http(self, reader, writer):
        self.dialled.append(80)
        peer = writer.get_extra_info("peername")[1]
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.requests.append((peer, head.decode().lower()))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Envoy-Upstream-Service-Time: 1\r\n\r\nworld")
        writer.close()


class Resolver(asyncio.DatagramProtocol):
    """Answers every name with the world's address, so that only Envoy's own order keeps a name from being asked."""

    def __init__(self):
        self.asked = []

    def connection_made(self, transport):
        self._transport = transport

    def datagram_received(self, data, address):
        query = dns.message.from_wire(data)
        name = query.question[0].name
        self.asked.append(name.to_text().rstrip("."))
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        answer.answer.append(dns.rrset.from_text(name, 60, "IN", "A", WORLD))
        self._transport.sendto(answer.to_wire(), address)


class Judge(external_auth_pb2_grpc.AuthorizationServicer):
    """Allows the names in ALLOWED; `hold` makes it answer nobody."""

    def __init__(self):
        self.asked = []
        self.hold = False

    async def Check(self, request, context):  # noqa: N802 - the name of the protocol
        source = request.attributes
        name = source.request.http.host or source.tls_session.sni.decode()
        self.asked.append((source.source.address.socket_address.address, name))
        if self.hold:
            await asyncio.Event().wait()
        allowed = name in ALLOWED
        answer = external_auth_pb2.CheckResponse()
        answer.status.code = 0 if allowed else 7
        if not allowed:
            answer.denied_response.status.code = 403
        return answer


class Gate:
    """All of it, running."""

    def __init__(self, directory, names, certificate):
        self.guest, self.gateway, world = names
        self.directory = directory
        self.account = pwd.getpwnam("opensafe-egress")
        layout = Layout(
            state=directory / "state",
            run=directory / "run",
            runsc=directory / "runsc",
            native=NATIVE,
            images=directory / "images",
        )
        layout.run.mkdir(mode=0o755)
        self.authz = layout.run / "authz.sock"
        self.world = World(world, certificate)
        self.judge = Judge()
        self.dead = asyncio.Event()
        self.envoy = Envoy(layout, self.account, pathlib.Path("/run/netns") / self.gateway, self.authz, self.dead.set)
        self.context = ssl.create_default_context(cafile=str(certificate))

    async def judging(self):
        self.server = grpc.aio.server()
        external_auth_pb2_grpc.add_AuthorizationServicer_to_server(self.judge, self.server)
        self.server.add_insecure_port(f"unix:{self.authz}")
        await self.server.start()
        os.chown(self.authz, self.account.pw_uid, self.account.pw_gid)

    @contextlib.asynccontextmanager
    async def running(self):
        await self.judging()
        udp = _inside(self.gateway, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 5353))
        transport, self.resolver = await asyncio.get_running_loop().create_datagram_endpoint(Resolver, sock=udp)
        serving = asyncio.create_task(self.world.serve())
        running = asyncio.create_task(self.envoy.run())
        try:
            await asyncio.wait_for(self.envoy.alive.wait(), 2 * WAIT_S)
            yield self
        finally:
            await self.envoy.close()
            await running
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            transport.close()
            await self.server.stop(0)

    async def connect(self, port):
        made = _inside(self.guest, lambda: socket.create_connection((GATEWAY, port), timeout=WAIT_S))
        made.setblocking(False)
        return await asyncio.open_connection(sock=made)

    async def tls(self, name, said=b"hello"):
        """What the world echoes, or OSError."""
        reader, writer = await self.connect(443)
        try:
            await writer.start_tls(self.context, server_hostname=name)
            writer.write(said)
            return await asyncio.wait_for(reader.read(4096), WAIT_S)
        finally:
            writer.close()

    async def http(self, *requests):
        """Status of each request, on one connection; 0 for a connection that was closed instead."""
        reader, writer = await self.connect(80)
        statuses = []
        try:
            for request in requests:
                writer.write(request.encode())
                statuses.append(await asyncio.wait_for(_answer(reader), WAIT_S))
        finally:
            writer.close()
        return statuses


async def _answer(reader):
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    except (asyncio.IncompleteReadError, OSError):
        return 0
    assert "x-envoy" not in head
    length = head.partition("content-length: ")[2].partition("\r\n")[0]
    await reader.readexactly(int(length or 0))
    return int(head.split()[1])


def get(host, target="/", *headers):
    return "\r\n".join([f"GET {target} HTTP/1.1", f"Host: {host}", *headers, "", ""])


@pytest.fixture
def names():
    """Three namespaces in a row, addressed as the gateway's are."""
    made = [f"ose-{os.getpid()}-{part}" for part in ("s", "g", "w")]
    guest, gateway, world = made
    try:
        for name in made:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        pairs = [(guest, "eth0", f"{GUEST}/31", gateway, "g0", f"{GATEWAY}/31")]
        pairs += [(gateway, "uplink", "10.202.0.2/30", world, "wan", "10.202.0.1/30")]
        for one, end, address, other, far, far_address in pairs:
            _ip("-n", one, "link", "add", end, "type", "veth", "peer", "name", far, "netns", other)
            for name, link, its in ((one, end, address), (other, far, far_address)):
                _ip("-n", name, "address", "add", its, "dev", link)
                _ip("-n", name, "link", "set", link, "up")
        _ip("-n", world, "address", "add", f"{WORLD}/32", "dev", "lo")
        _ip("-n", gateway, "route", "add", "default", "via", "10.202.0.1")
        sysctl = ["ip", "netns", "exec", gateway, "sysctl", "-qw", "net.ipv4.ip_unprivileged_port_start=53"]
        subprocess.run(sysctl, check=True)
        yield made
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@pytest.fixture
def directory():
    """Not below tmp_path, whose directories are closed to Envoy's user."""
    made = pathlib.Path(tempfile.mkdtemp(prefix="opensafe-egress-", dir="/run"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
async def gate(names, directory):
    async with Gate(directory, names, _certificate(directory)).running() as gate:
        yield gate


def test_the_configuration_is_valid(tmp_path):
    path = tmp_path / "envoy.json"
    path.write_text(json.dumps(configuration("/run/authz.sock", str(tmp_path / "admin.sock"))))
    done = subprocess.run(
        [envoy_module._binary(), "--mode", "validate", "-c", path, "-l", "warning"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


async def test_an_allowed_name_passes_bytes_both_ways(gate):
    assert await gate.tls("allowed.test") == b"echo hello"
    assert gate.judge.asked == [(GUEST, "allowed.test")]
    assert gate.world.dialled == [443]
    assert set(gate.resolver.asked) == {"allowed.test"}


async def test_a_denied_name_is_neither_resolved_nor_dialled(gate):
    with pytest.raises(OSError):  # noqa: PT011 - a reset or an end of file, as it comes
        await gate.tls("denied.test")
    assert gate.judge.asked == [(GUEST, "denied.test")]
    assert (gate.world.dialled, gate.resolver.asked) == ([], [])


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-client\r\n"])
async def test_who_says_nothing_or_no_tls_on_443_is_closed_and_hears_nothing(gate, said):
    reader, writer = await gate.connect(443)
    writer.write(said)
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(reader.read(), WAIT_S) == b""
    writer.close()
    assert (gate.judge.asked, gate.world.dialled) == ([], [])


async def test_each_request_is_judged_by_its_own_authority(gate):
    asked = [get("allowed.test"), get("denied.test"), get("allowed.test"), get("allowed.test", "http://denied.test/")]
    assert await gate.http(*asked) == [200, 403, 200, 403]
    assert [name for _, name in gate.judge.asked] == ["allowed.test", "denied.test", "allowed.test", "denied.test"]
    assert (gate.world.dialled, set(gate.resolver.asked)) == ([80], {"allowed.test"})


@pytest.mark.parametrize(
    ("request_", "statuses"),
    [
        ("CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n", {403, 404, 405}),
        (get("allowed.test", "/", "Connection: Upgrade", "Upgrade: example"), {403}),
        (get("allowed.test", "/", "Content-Length: 3", "Transfer-Encoding: chunked") + "0\r\n\r\n", {400}),
        (get("allowed.test", "/", *(f"x-{i}: 1" for i in range(200))), {431}),
    ],
    ids=["connect", "upgrade", "both-lengths", "headers"],
)
async def test_what_is_no_plain_request_is_refused_and_not_dialled(gate, request_, statuses):
    [status] = await gate.http(request_)
    assert status in statuses
    assert gate.world.dialled == []


async def test_what_follows_a_request_for_websocket_is_held_back_from_a_server_that_does_not_agree(gate):
    upgrade = get("allowed.test", "/", "Connection: Upgrade", "Upgrade: websocket")
    reader, writer = await gate.connect(80)
    writer.write((upgrade + get("denied.test", "/secret")).encode())
    answer = await asyncio.wait_for(reader.read(), WAIT_S)  # to the end: Envoy closes
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert [head.splitlines()[0] for _, head in gate.world.requests] == ["get / http/1.1"]
    assert gate.judge.asked == [(GUEST, "allowed.test")]


async def test_upstream_hears_nothing_of_the_inside(gate):
    told = get(
        "allowed.test", "/a//b/../@scope%2Fname", "X-Forwarded-For: 1.2.3.4", "X-Envoy-Internal: true", "X-Own: 1"
    )
    assert await gate.http(told) == [200]
    [(_, head)] = gate.world.requests
    assert head.startswith("get /a/@scope%2fname http/1.1\r\n")
    assert "x-own: 1" in head
    assert [line for line in head.splitlines() if line.startswith(("x-envoy", "x-forwarded", "x-request"))] == []
    assert gate.judge.asked == [(GUEST, "allowed.test")]


async def test_two_clients_never_share_an_upstream_connection(gate):
    clients = 8  # of each worker some, so that a pool of a worker's would show
    for _ in range(clients):
        assert await gate.http(get("allowed.test"), get("allowed.test")) == [200, 200]
    peers = [peer for peer, _ in gate.world.requests]
    assert peers[::2] == peers[1::2]
    assert len(set(peers)) == clients


@pytest.mark.parametrize("how", ["gone", "hung"])
async def test_without_a_judge_nothing_is_dialled(gate, how):
    if how == "gone":
        await gate.server.stop(0)
    gate.judge.hold = True
    with pytest.raises(OSError):  # noqa: PT011 - a reset or an end of file, as it comes
        await gate.tls("allowed.test")
    assert await gate.http(get("allowed.test")) == [503]
    assert (gate.world.dialled, gate.resolver.asked) == ([], [])


async def test_a_killed_envoy_comes_back_and_meanwhile_connections_are_refused(gate):
    assert await gate.http(get("allowed.test")) == [200]
    [pid] = _processes(gate)
    os.kill(pid, signal.SIGSTOP)  # so that its end and the next one's start are apart
    reader, writer = await gate.connect(80)
    os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(reader.read(), WAIT_S) == b""
    writer.close()
    await asyncio.wait_for(gate.dead.wait(), WAIT_S)
    with pytest.raises(ConnectionRefusedError):
        await gate.connect(80)
    await asyncio.wait_for(gate.envoy.alive.wait(), 2 * WAIT_S)
    assert await gate.http(get("allowed.test")) == [200]


async def test_it_holds_no_privilege_and_its_admin_is_on_no_port(gate):
    [pid] = _processes(gate)
    status = _status(pid)
    assert f"Uid:\t{gate.account.pw_uid}\t{gate.account.pw_uid}" in status
    assert "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    assert gate.envoy.admin.stat().st_mode & 0o777 == 0o600
    assert _listeners(gate) == {"0.0.0.0:80", "0.0.0.0:443"}


def _processes(gate):
    found = subprocess.run(["ip", "netns", "pids", gate.gateway], capture_output=True, text=True, check=True)
    return [int(pid) for pid in found.stdout.split()]


def _status(pid):
    return pathlib.Path(f"/proc/{pid}/status").read_text()


def _listeners(gate):
    words = ["ip", "netns", "exec", gate.gateway, "ss", "-Hltn"]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return {line.split()[3] for line in listed.splitlines()}
