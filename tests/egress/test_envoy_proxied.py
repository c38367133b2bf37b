"""Envoy between a guest and a site's proxy: what the proxy is asked, and what a guest hears of its answers."""

import asyncio
import contextlib
import json
import ssl
import subprocess

import dns.flags
import dns.message
import dns.rrset
import pytest

from opensafe.warden.network.envoy import Envoy, _binary
from opensafe.warden.network.envoy_config import Proxy, Termination, configuration

from . import test_envoy
from .test_envoy import WORLD, Gate, _certificate, _inside, _listening, get

pytestmark = pytest.mark.root
names, directory = test_envoy.names, test_envoy.directory

PORT = 3128
#: Where the proxy is later.
MOVED = "198.51.100.11"
AUTHORIZATION = "Basic c2Vj%cmV0"
#: What only the proxy says.
WORD = b"corp-squid"
ANSWERS = {
    "credentials": b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=corp-squid\r\nContent-Length: 10\r\n\r\n"
    + WORD,
    "squid": b"HTTP/1.1 403 No\r\nX-Squid-Error: ERR_ACCESS_DENIED 0\r\nServer: corp-squid\r\nSet-Cookie: a\r\n"
    b"Set-Cookie: b\r\nTransfer-Encoding: chunked\r\n\r\na\r\ncorp-squid\r\n0\r\n\r\n",
    "rfc9209": b"HTTP/1.1 504 No\r\nProxy-Status: corp-squid; error=dns_timeout\r\nContent-Length: 0\r\n\r\n",
    "long": b"HTTP/1.1 403 No\r\nX-Squid-Error: ERR 0\r\nContent-Length: 300000\r\n\r\n" + WORD * 30_000,
    "server": b"HTTP/1.1 403 No\r\nVia: 1.1 corp-squid\r\nX-Cache: MISS from corp-squid\r\nX-Own: 1\r\n"
    b"Content-Length: 6\r\n\r\nserver",
}


class Site:
    """A proxy that answers requests with `answer`, and grants tunnels, which echo, where `grants`; None: late."""

    def __init__(self, namespace):
        self._socket = _inside(namespace, lambda: _listening("", PORT))
        self.addresses = []
        self.heads = []
        self.peers = []
        self.ended, self.late = asyncio.Event(), asyncio.Event()
        self.answer = ANSWERS["server"]
        self.grants = True

    async def serve(self, reader, writer):
        self.peers.append(writer.get_extra_info("peername"))
        self.addresses.append(writer.get_extra_info("sockname")[0])
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head.decode())
                if not head.startswith(b"CONNECT"):
                    writer.write(self.answer)
                    continue
                if self.grants is None:
                    await self.late.wait()
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n" if self.grants is not False else ANSWERS["credentials"])
                while self.grants is not False and (data := await reader.read(4096)):
                    writer.write(b"echo " + data)
        writer.close()
        self.ended.set()

    @contextlib.asynccontextmanager
    async def open(self):
        async with await asyncio.start_server(self.serve, sock=self._socket):
            yield self


@pytest.fixture
async def behind(names, directory, request):
    """A gate whose Envoy has a proxy, and that proxy. The parameter, if any: what Envoy tells it in authorization."""
    gate = Gate(directory, names, _certificate(directory))
    proxy = Proxy(host=WORLD, port=PORT, authorization=getattr(request, "param", AUTHORIZATION))
    gate.envoy = Envoy(gate.envoy._layout, gate.account, gate.envoy._namespace, gate.authz, gate.dead.set, proxy=proxy)
    async with Site(names[2]).open() as site, gate.running():
        yield gate, site


async def heard(gate, *requests):
    """All that a guest hears of its requests on one connection, which it then closes."""
    reader, writer = await gate.connect(80)
    writer.write("".join(requests).encode())
    said = b""
    with contextlib.suppress(TimeoutError):
        while data := await asyncio.wait_for(reader.read(65536), 0.5):
            said += data
    writer.close()
    return said


def test_the_configuration_is_valid_by_name_and_with_termination(tmp_path):
    path = tmp_path / "envoy.json"
    trusted = "/etc/ssl/certs/ca-certificates.crt"
    termination = Termination(names=("a.test",), certificates=str(tmp_path), trusted=trusted)
    proxy = Proxy(host="proxy.test", port=PORT)
    (tmp_path / "a.test.json").write_text('{"resources": []}')
    told = configuration("/run/authz.sock", str(tmp_path / "admin.sock"), termination=termination, proxy=proxy)
    path.write_text(json.dumps(told))
    done = subprocess.run(
        [_binary(), "--mode", "validate", "-c", path, "-l", "warning"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "deprecated" not in done.stderr.lower()


def test_no_representation_of_a_proxy_shows_its_authorization():
    assert AUTHORIZATION not in repr(Proxy(host=WORLD, port=PORT, authorization=AUTHORIZATION))


async def test_a_tunnel_is_asked_for_once_it_is_allowed_and_refused_names_never_are(behind):
    gate, site = behind
    for name, said in (("denied.test", []), ("allowed.test", ["allowed.test:443"])):
        reader, writer = await gate.connect(443)
        writer.write(_hello(name))
        await asyncio.wait_for(reader.read(9) if said else reader.read(), test_envoy.WAIT_S)
        writer.close()
        assert [head.split()[1] for head in site.heads] == said
    assert f"proxy-authorization: {AUTHORIZATION}\r\n" in site.heads[0]
    assert gate.resolver.asked == []


def _hello(name):
    context, incoming, outgoing = ssl.create_default_context(), ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


async def test_a_request_is_in_absolute_form_with_the_sites_authorization_and_not_the_guests(behind):
    gate, site = behind
    mine = get("allowed.test", "/a?b=c", "Proxy-Authorization: Basic mine", "Proxy-Connection: x", "X-Own: 1")
    said = await heard(gate, mine, get("denied.test"))
    assert said.startswith(b"HTTP/1.1 403 Forbidden\r\nx-own: 1\r\ncontent-length: 6\r\n")
    assert WORD not in said
    [head] = site.heads
    assert head.startswith("GET http://allowed.test/a?b=c HTTP/1.1\r\n")
    assert f"proxy-authorization: {AUTHORIZATION}\r\n" in head
    assert "mine" not in head
    assert "proxy-connection" not in head
    assert gate.resolver.asked == []


@pytest.mark.parametrize("behind", [""], indirect=True)
async def test_a_proxy_that_wants_no_authorization_hears_none_of_the_guests(behind):
    gate, site = behind
    await heard(gate, get("allowed.test", "/", "Proxy-Authorization: Basic mine", "X-Own: 1"))
    [head] = site.heads
    assert "x-own: 1" in head
    assert "authorization" not in head


@pytest.mark.parametrize("kind", ["credentials", "squid", "rfc9209", "long"])
async def test_what_the_proxy_says_in_its_own_name_is_kept_from_the_guest(behind, kind):
    gate, site = behind
    site.answer = ANSWERS[kind]
    said = await heard(gate, get("allowed.test"))
    assert said.startswith((b"HTTP/1.1 502 Bad Gateway", b"HTTP/1.1 500 "))
    assert WORD not in said
    assert b"squid" not in said.lower()
    if kind != "long":
        assert b"egress: the site's proxy does not answer" in said


async def test_a_refused_tunnel_is_closed_and_one_that_is_answered_too_late_ends_with_the_answer(behind):
    gate, site = behind
    site.grants = False
    reader, writer = await gate.connect(443)
    writer.write(_hello("allowed.test"))
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(reader.read(), test_envoy.WAIT_S) == b""
    writer.close()
    await asyncio.wait_for(site.ended.wait(), test_envoy.WAIT_S)
    site.grants = None
    site.ended.clear()
    reader, writer = await gate.connect(443)
    writer.write(_hello("allowed.test"))
    async with asyncio.timeout(test_envoy.WAIT_S):
        while len(site.heads) < 2:  # noqa: ASYNC110 - the list tells nobody
            await asyncio.sleep(0.01)
    writer.close()
    site.late.set()
    await asyncio.wait_for(site.ended.wait(), test_envoy.WAIT_S)


async def test_two_clients_never_share_a_connection_to_the_proxy(behind):
    gate, site = behind
    clients = 6
    for _ in range(clients):
        await heard(gate, get("allowed.test"), get("allowed.test"))
    assert len(site.heads) == 2 * clients
    assert len(set(site.peers)) == clients


class Moving(test_envoy.Resolver):
    """Answers with another address after a second."""

    def datagram_received(self, data, address):
        query = dns.message.from_wire(data)
        name = query.question[0].name
        self.asked.append(name.to_text().rstrip("."))
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        where = MOVED if len(self.asked) > 2 else WORLD  # two clusters ask
        answer.answer.append(dns.rrset.from_text(name, 1, "IN", "A", where))
        self._transport.sendto(answer.to_wire(), address)


async def test_a_proxy_that_is_named_is_the_only_name_asked_for_and_followed_where_it_moves(
    names, directory, monkeypatch
):
    monkeypatch.setattr(test_envoy, "Resolver", Moving)
    test_envoy._ip("-n", names[2], "address", "add", f"{MOVED}/32", "dev", "lo")
    gate = Gate(directory, names, _certificate(directory))
    proxy = Proxy(host="proxy.test", port=PORT)
    gate.envoy = Envoy(gate.envoy._layout, gate.account, gate.envoy._namespace, gate.authz, gate.dead.set, proxy=proxy)
    async with Site(names[2]).open() as site, gate.running(), asyncio.timeout(test_envoy.WAIT_S):
        while site.addresses[-1:] != [MOVED]:
            await heard(gate, get("allowed.test"))
        assert site.addresses[0] == WORLD
        assert set(gate.resolver.asked) == {"proxy.test"}
