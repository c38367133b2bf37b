"""Clients as people use them, in a sandbox and told of no proxy: an allowed name is reached by each, another by none.

Where a client checks certificates, what it accepts is the world's own server: nobody in between ends TLS.
"""

import shlex

import pytest
import pytest_asyncio

from opensafe.proof.world import Kind
from tests.harness.way_out import ALLOWED, Place, daemon_before, nothing_open

#: The world is read by a task of this loop.
pytestmark = [pytest.mark.root, pytest.mark.runsc, pytest.mark.asyncio(loop_scope="module")]

UPLINK = "10.203.243.0/30"
HTTP2 = "h2.allowed.test"
#: Address space for Node's fetch, whose parser is WebAssembly: that reserves 10 GiB.
WASM_BYTES = 16 << 30

URLLIB = """
import ssl, sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], context=ssl.create_default_context(cafile="ca.pem")).read().decode())
"""
#: The library that pip brings along.
REQUESTS = """
import sys
from pip._vendor import requests
with requests.Session() as session:
    for _ in range(2):
        print(session.get(sys.argv[1], verify="ca.pem", timeout=5).text)
"""
#: Node takes a further root from its environment alone.
FETCH = """
import { spawnSync } from "node:child_process"
if (!process.env.NODE_EXTRA_CA_CERTS) {
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: "ca.pem" }
  process.exit(spawnSync(process.execPath, process.argv.slice(1), { env, stdio: "inherit" }).status)
}
const answer = await fetch(process.argv[2])
console.log(await answer.text())
"""
NODE_HTTP2 = """
import http2 from "node:http2"
import fs from "node:fs"
const url = new URL(process.argv[2])
const session = http2.connect(url.origin, { ca: fs.readFileSync("ca.pem") })
session.on("error", (error) => { console.error(error.code); process.exit(1) })
const stream = session.request({ ":path": url.pathname })
stream.on("response", (fields) => console.log("http2", fields[":status"]))
stream.on("data", (data) => console.log(data.toString()))
stream.on("end", () => session.close())
"""
#: RFC 6455: the handshake, one masked text frame each way.
WEBSOCKET = """
import socket, ssl, sys, urllib.parse
name = urllib.parse.urlsplit(sys.argv[1]).hostname
tls = ssl.create_default_context(cafile="ca.pem")
with tls.wrap_socket(socket.create_connection((name, 443), 5), server_hostname=name) as peer:
    peer.sendall(("GET /chat HTTP/1.1\\r\\nHost: " + name + "\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
        "Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\\r\\n").encode())
    stream = peer.makefile("rb")
    while (line := stream.readline()) != b"\\r\\n":
        print(line.decode().strip())
    text, mask = b"hello from the world", b"abcd"
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(text))
    peer.sendall(bytes([0x81, 0x80 | len(text)]) + mask + masked)
    first, size = stream.read(2)
    print(first == 0x81, stream.read(size).decode())
"""
#: A client with an address that its call does not name.
OTHER = """
import shlex, subprocess, sys
client, name, path = sys.argv[1:4]
sys.exit(subprocess.run([*shlex.split(client), f"https://{name}.test/{path}"]).returncode)
"""
PROGRAMS = {
    "by_urllib.py": URLLIB,
    "by_requests.py": REQUESTS,
    "by_fetch.mjs": FETCH,
    "by_http2.mjs": NODE_HTTP2,
    "by_websocket.py": WEBSOCKET,
    "other.py": OTHER,
}
#: Name of the client: its command before the URL.
CLIENTS = {
    "curl": "curl -sS -m 10 --cacert ca.pem",
    "urllib": "python3 by_urllib.py",
    "requests": "python3 by_requests.py",
    "fetch": "node by_fetch.mjs",
}
HTTP2_CLIENTS = {
    "curl": "curl -sS -m 10 --cacert ca.pem --http2 -w 'http%{http_version}'",
    "node": "node by_http2.mjs",
}
WEBSOCKET_CLIENT = "python3 by_websocket.py"
#: Each client, and where it would be answered were it granted: the site allows the name, and no call here names it.
ELSEWHERE = [
    *((client, "git", "hello") for client in CLIENTS.values()),
    *((client, HTTP2.removesuffix(".test"), "hello") for client in HTTP2_CLIENTS.values()),
    (WEBSOCKET_CLIENT, "git", "chat"),
]


@pytest.fixture(scope="module")
def daemon(world, tmp_path_factory):
    def roomy(data):
        data["grants"]["bash"]["limits"]["address_space_bytes"] = WASM_BYTES

    with daemon_before(world, tmp_path_factory.mktemp("site"), UPLINK, [*ALLOWED, HTTP2], roomy) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(daemon, world):
    async with Place.open(daemon, "dev") as opened:
        await opened.write("ca.pem", world.ca_pem.decode())
        for path, content in PROGRAMS.items():
            await opened.write(path, content)
        yield opened


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_reaches_an_allowed_name(place, world, client, scheme):
    before = len(world.log)
    done = await place.run(f"{CLIENTS[client]} {scheme}://allowed.test/hello")
    assert b"hello from the world" in done.stdout, done
    requests = [event for event in world.log[before:] if event.kind is Kind.REQUEST]
    assert {event.name for event in requests} == {"allowed.test"}
    assert {event.port for event in requests} == {{"http": 80, "https": 443}[scheme]}


@pytest.mark.parametrize("client", HTTP2_CLIENTS)
async def test_http2_passes(place, world, client):
    before = len(world.log)
    done = await place.run(f"{HTTP2_CLIENTS[client]} https://{HTTP2}/hello")
    assert b"hello from the world" in done.stdout, done
    assert b"http2" in done.stdout
    assert any(event.data == b"HTTP/2" for event in world.log[before:])


async def test_a_websocket_passes_over_tls(place):
    done = await place.run(f"{WEBSOCKET_CLIENT} https://allowed.test/chat")
    told = done.stdout.decode().splitlines()
    assert told[0] == "HTTP/1.1 101 Switching Protocols", done
    assert told[-1] == "True hello from the world"


@pytest.mark.parametrize(("client", "name", "path"), ELSEWHERE)
async def test_no_client_reaches_a_name_that_its_call_does_not_have(daemon, place, world, client, name, path):
    await nothing_open(daemon)
    before = len(world.log)
    earlier = {event.source for event in world.log}
    done = await place.run(f"python3 other.py {shlex.quote(client)} {name} {path} https://allowed.test/")
    assert done.outcome.exit_code, done
    assert b"hello" not in done.stdout
    # Envoy may ask for a name again that it had before.
    # What was open before may end now: the gateway keeps connections for a while.
    new = [event for event in world.log[before:] if not (event.kind is Kind.CLOSED and event.source in earlier)]
    assert {(event.kind, event.name) for event in new} <= {(Kind.QUESTION, "allowed.test")}
