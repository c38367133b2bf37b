"""Everything but an allowed name is refused within a second: a client that would wait is told, and nothing leaves.

Each attempt is made by a guest whose patience is one second. One that only ran out of time is made again: a busy host
may be slow, what is dropped without a word stays silent each time. The same program in the open shows that each of
them would have got somewhere.
"""

import asyncio
import contextlib
import ipaddress
import json
import sys

import pytest
import pytest_asyncio

from opensafe.client import Stdout
from opensafe.proof.world import Kind, plan
from tests.harness.way_out import Passing, Place, Tried, daemon_before, in_its_place

#: The world is read by a task of this loop.
pytestmark = [pytest.mark.root, pytest.mark.runsc, pytest.mark.asyncio(loop_scope="module")]

UPLINK = "10.203.244.0/30"
#: Host and gateway on it.
UPLINK_ENDS = ("10.203.244.1", "10.203.244.2")
OTHER_PORT = 8765
PROGRAM = """
import concurrent.futures, errno, json, socket, ssl, struct, sys

FACTS = json.load(open(sys.argv[1]))
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

def gateway():
    for line in open("/proc/net/route").read().splitlines()[1:]:
        words = line.split()
        if words[1] == "00000000":
            return socket.inet_ntoa(struct.pack("<I", int(words[2], 16)))

def ask(address, port, data=b"ping", kind=socket.SOCK_STREAM, family=socket.AF_INET):
    with socket.socket(family, kind) as peer:
        peer.settimeout(FACTS["wait"])
        peer.connect((address, port))
        peer.sendall(data if isinstance(data, bytes) else data.encode())
        return peer.recv(400)

def datagram(address, port, data=b"ping"):
    return ask(address, port, data, socket.SOCK_DGRAM)

def six(address, port):
    return ask(address, port, family=socket.AF_INET6)

def http(text):
    return ask(FRONT, 80, text.encode()).split(b"\\r\\n")[0]

def get(host, target="/hello"):
    return http("GET " + target + " HTTP/1.1\\r\\nHost: " + host + "\\r\\nConnection: close\\r\\n\\r\\n")

def tls(name):
    with socket.create_connection((FRONT, 443), FACTS["wait"]) as peer:
        with context.wrap_socket(peer, server_hostname=name) as inner:
            inner.sendall(b"GET /hello HTTP/1.1\\r\\nHost: " + (name or "nobody").encode() + b"\\r\\n\\r\\n")
            return inner.recv(400).split(b"\\r\\n")[0]

def lookup(server, name, kind=1):
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    wire = b"\\x12\\x34\\x01\\x00\\x00\\x01\\0\\0\\0\\0\\0\\0" + labels + b"\\0" + struct.pack("!HH", kind, 1)
    answer = datagram(server, 53, wire)
    return "rcode %d, %d answers" % (answer[3] & 15, struct.unpack("!H", answer[6:8])[0])

def outcome(work, words):
    try:
        answer = work(*words)
    except TimeoutError:
        return "timeout"
    except (ConnectionRefusedError, ConnectionResetError):
        return "refused"
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
        return "closed"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    if isinstance(answer, bytes):
        return answer.decode("latin-1") or "closed"
    return answer

FRONT, OWN = FACTS["front"] or socket.gethostbyname("allowed.test"), gateway()
PLACES = {"FRONT": FRONT, "OWN": OWN}

def attempt(name, words):
    words = [PLACES.get(word, word) for word in words]
    tried = [outcome(globals()[words[0]], words[1:])]
    while tried[-1] == "timeout" and len(tried) < FACTS["tries"]:
        tried.append(outcome(globals()[words[0]], words[1:]))
    return json.dumps([name, tried[-1]])

with concurrent.futures.ThreadPoolExecutor(FACTS["at_once"]) as pool:
    for line in pool.map(attempt, *zip(*FACTS["attempts"])):
        print(line, flush=True)
"""
REFUSED, CLOSED = {"refused"}, {"closed", "refused"}
FORBIDDEN = {"HTTP/1.1 403 Forbidden"}
NOT_SPOKEN = {*FORBIDDEN, "HTTP/1.1 400 Bad Request", "HTTP/1.1 404 Not Found", *CLOSED}
UNREACHABLE = {"ENETUNREACH", "EADDRNOTAVAIL", "EAFNOSUPPORT"}
NO_SUCH_NAME = {"rcode 3, 0 answers"}
#: Name of the attempt: what is done, how it may end.
ATTEMPTS = {
    **{
        f"tcp {address}:{port}": (("ask", address, port), REFUSED)
        for address in (plan.ALLOWED, plan.DENIED, plan.PRIVATE, *plan.METADATA)
        for port in (22, 80, 443)
    },
    **{f"tcp {plan.HOST}:{port}": (("ask", plan.HOST, port), REFUSED) for port in (22, 443)},
    **{f"tcp {end}:{port}": (("ask", end, port), REFUSED) for end in UPLINK_ENDS for port in (22, 53, 80, 443)},
    **{
        f"tcp gateway:{port}": (("ask", "OWN", port), REFUSED)
        for port in (22, 25, 853, 5353, 6379, 8443, 9001, 9901, 10000, 15001)
    },
    **{
        f"udp {address}:{port}": (("datagram", address, port), REFUSED)
        for address, port in (
            *((plan.DENIED, port) for port in plan.UDP_SINKS),
            *((plan.ALLOWED, 443), (plan.PRIVATE, 9999), ("OWN", 443), ("OWN", 123), (plan.HOST, 53)),
        )
    },
    **{
        f"another name server {address}": (("lookup", address, "allowed.test"), REFUSED)
        for address in (plan.RESOLVER, plan.DENIED, plan.METADATA[0], plan.HOST, *UPLINK_ENDS)
    },
    **{f"another name server's tcp:{port}": (("ask", plan.RESOLVER, port), REFUSED) for port in (53, 853)},
    "IPv6": (("six", plan.ALLOWED6, 443), UNREACHABLE),
    "IPv6 of IPv4": (("six", f"::ffff:{plan.DENIED}", 443), {*REFUSED, *UNREACHABLE}),
    "a name that is not allowed": (("lookup", "OWN", "denied.test"), NO_SUCH_NAME),
    "a name of nobody": (("lookup", "OWN", "nowhere.invalid"), NO_SUCH_NAME),
    "an address of IPv6": (("lookup", "OWN", "allowed.test", 28), {"rcode 0, 0 answers"}),
    "TLS to another name": (("tls", "denied.test"), CLOSED),
    "TLS to a name below": (("tls", "below.allowed.test"), CLOSED),
    "TLS without a name": (("tls", None), CLOSED),
    "TLS to an address": (("tls", plan.DENIED), CLOSED),
    "no TLS": (("ask", "FRONT", 443, "GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n"), CLOSED),
    "another Host": (("get", "denied.test"), FORBIDDEN),
    "a Host below": (("get", "below.allowed.test"), FORBIDDEN),
    "an address as Host": (("get", plan.DENIED), FORBIDDEN),
    "a port of the Host": (("get", "allowed.test:22"), FORBIDDEN),
    "the absolute form": (("get", "allowed.test", "http://denied.test/hello"), FORBIDDEN),
    "CONNECT": (("http", "CONNECT denied.test:443 HTTP/1.1\r\nHost: denied.test:443\r\n\r\n"), NOT_SPOKEN),
    "CONNECT to an allowed name": (
        ("http", "CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n"),
        NOT_SPOKEN,
    ),
    "HTTP/2 without TLS": (("http", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), NOT_SPOKEN),
}
TWINS = {
    "TLS": (("tls", "allowed.test"), {"HTTP/1.1 200 OK"}),
    "HTTP": (("get", "allowed.test"), {"HTTP/1.1 200 OK"}),
    "a name": (("lookup", "OWN", "allowed.test"), {"rcode 0, 1 answers"}),
}
REACHED = {("tcp", plan.ALLOWED, 80), ("tcp", plan.ALLOWED, 443)}
OPEN = {*REACHED, ("udp", plan.RESOLVER, 53)}
#: In another sandbox: it says its address; LISTENER tells whoever gets there.
ADDRESS = f"""
import socket, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
    peer.connect(("{plan.DENIED}", 9))
    own = peer.getsockname()[0]
listening = socket.create_server(("0.0.0.0", {OTHER_PORT}))
with socket.create_connection((own, {OTHER_PORT})):  # the control: it is there
    listening.accept()[0].close()
print(own, flush=True)
time.sleep(60)
"""
LISTENER = ADDRESS.replace("time.sleep(60)", 'print("got", listening.accept()[1], flush=True)')


#: Datagrams to whoever, which nothing tells whether somebody is there.
UNCONNECTED = f"""
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
    for port in {plan.UDP_SINKS!r}:
        for address in ({plan.DENIED!r}, {plan.ALLOWED!r}, {plan.PRIVATE!r}):
            for _ in range(3):
                try: peer.sendto(b"silent", (address, port))
                except ConnectionRefusedError: pass  # an earlier one's
"""
SENT = {("udp", address, port) for address in (plan.DENIED, plan.ALLOWED, plan.PRIVATE) for port in plan.UDP_SINKS}
#: Sources that are not the sender's: IP_TRANSPARENT lets root have them.
SPOOFED = """
import itertools, socket
targets, sources = {targets!r}, {sources!r}
while True:
    for (address, port), source in itertools.product(targets, sources):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_INET, kind | socket.SOCK_NONBLOCK) as peer:
                peer.setsockopt(socket.IPPROTO_IP, 19, 1)
                try:
                    peer.bind((source, 0))
                    peer.connect((address, port))
                    peer.send(b"spoofed")
                except OSError:
                    pass
"""


def facts(attempts, front="", wait=1.0, tries=3, at_once=1):
    """What the program reads. front: where the allowed name is; "": it asks."""
    doing = [(name, words) for name, (words, _) in attempts.items()]
    return json.dumps({"attempts": doing, "front": front, "wait": wait, "tries": tries, "at_once": at_once})


@pytest.fixture(scope="module")
def daemon(world, tmp_path_factory):
    with daemon_before(world, tmp_path_factory.mktemp("site"), UPLINK) as made:
        yield made


class Told(dict):
    """How each attempt ended, and what had passed to the world meanwhile."""

    passed = events = ()


async def attempt(place, world, attempts):
    """All of them in one call."""
    await place.write("go.py", PROGRAM)
    await place.write("facts.json", facts(attempts))
    passing, before = Passing(world), len(world.log)
    await passing.since()
    done = await place.run("python3 go.py facts.json http://allowed.test/ https://allowed.test/")
    assert done.outcome.exit_code == 0, done
    told = Told(json.loads(line) for line in done.stdout.splitlines())
    told.passed, told.events = await passing.since(), world.log[before:]
    return told


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(daemon):
    async with Place.open(daemon) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outcomes(place, world):
    return await attempt(place, world, ATTEMPTS)


@pytest.mark.parametrize("name", ATTEMPTS)
async def test_it_is_refused_within_a_second(outcomes, name):
    assert outcomes[name] in ATTEMPTS[name][1]


async def test_the_world_saw_none_of_it(outcomes):
    assert len(outcomes) == len(ATTEMPTS)
    assert (outcomes.passed, outcomes.events) == (set(), ())


async def test_what_is_allowed_is_answered_by_the_same_program(place, world):
    told = await attempt(place, world, TWINS)
    assert {name: outcome in TWINS[name][1] for name, outcome in told.items()} == dict.fromkeys(TWINS, True), told
    assert REACHED <= told.passed <= OPEN


async def test_in_the_open_each_of_them_gets_out(world, tmp_path):
    before, read = len(world.log), len((await world.packets()).packets)
    (tmp_path / "facts.json").write_text(facts(ATTEMPTS, plan.ALLOWED, tries=1, at_once=32))
    outcome = await world.plain([sys.executable, "-I", "-c", PROGRAM, str(tmp_path / "facts.json")], timeout=60)
    assert outcome.returncode == 0, outcome.stderr
    seen = {(p.protocol, p.target, p.port) for p in (await world.packets()).packets[read:] if not p.outgoing}
    assert {aim(words) for words, _ in ATTEMPTS.values()} - seen == set()
    names = {event.name for event in world.log[before:] if event.kind in (Kind.HELLO, Kind.REQUEST, Kind.QUESTION)}
    assert names >= {"denied.test", "below.allowed.test", "", plan.DENIED, "allowed.test:22", "nowhere.invalid"}


def aim(words):
    """Where an attempt's first packet goes in the open."""
    places = {"FRONT": plan.ALLOWED, "OWN": plan.PLAIN_GATEWAY}
    match words:
        case ("six", address, port) if address.startswith("::ffff:"):
            return "tcp", address.removeprefix("::ffff:"), port
        case ("ask" | "six", address, port, *_):
            return "tcp", places.get(address, address), port
        case ("datagram", address, port):
            return "udp", places.get(address, address), port
        case ("lookup", address, *_):
            return "udp", places.get(address, address), plan.DNS
        case ("tls", _):
            return "tcp", plan.ALLOWED, plan.TLS
    return "tcp", plan.ALLOWED, plan.HTTP


async def test_another_sandbox_is_nowhere(daemon, place, world):
    async with Place.open(daemon) as other, saying(other, LISTENER) as said:
        address = await asyncio.wait_for(said.get(), 30)
        its_gateway = str(ipaddress.IPv4Address(address) - 1)
        attempts = {
            **{f"tcp {address}:{port}": (("ask", address, port), REFUSED) for port in (OTHER_PORT, 22)},
            **{f"tcp {its_gateway}:{port}": (("ask", its_gateway, port), REFUSED) for port in (53, 80, 443)},
            "udp": (("datagram", address, OTHER_PORT), REFUSED),
            "its name server": (("lookup", its_gateway, "allowed.test"), REFUSED),
        }
        told = await attempt(place, world, attempts)
        assert told == dict.fromkeys(attempts, "refused")
        assert said.empty()


async def test_datagrams_of_an_unconnected_socket_do_not_leave(daemon, place, world):
    async with Tried.watch(daemon, "10.201.") as tried:
        await place.write("send.py", UNCONNECTED)
        passing = Passing(world)
        await passing.since()
        done = await place.run("python3 send.py http://allowed.test/")
        assert done.outcome.exit_code == 0, done
        tried.read()
        assert tried.counts.keys() >= SENT
        assert await passing.since() == set()


async def test_in_the_open_they_do(world):
    read = len((await world.packets()).packets)
    outcome = await world.plain([sys.executable, "-I", "-c", UNCONNECTED])
    assert outcome.returncode == 0, outcome.stderr
    assert {(p.protocol, p.target, p.port) for p in (await world.packets()).packets[read:]} >= SENT


@contextlib.asynccontextmanager
async def saying(place, program, naming=""):
    """A call that goes on, and a queue of what it says, line by line; `naming` is what it is granted."""
    said: asyncio.Queue[str] = asyncio.Queue()

    async def listen():
        async for event in place.call(f"python3 say.py {naming}"):
            if isinstance(event, Stdout):
                for line in event.data.decode().splitlines():
                    said.put_nowait(line)

    await place.write("say.py", program)
    listening = asyncio.create_task(listen())
    try:
        yield said
        assert not listening.done()
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


def spoofing(aims, sources):
    return SPOOFED.format(targets=aims, sources=sources)


async def test_sources_of_others_do_not_leave(daemon, place, world):
    async with Tried.watch(daemon, "10.201.") as tried, Place.open(daemon) as other:
        await place.run("curl -sk https://allowed.test/hello")
        tried.read()
        own = tried.guest
        async with saying(other, ADDRESS, "https://allowed.test/") as said:
            sources = [await asyncio.wait_for(said.get(), 30), plan.HOST, plan.DENIED, plan.ALLOWED, *UPLINK_ENDS]
            gateway = str(ipaddress.IPv4Address(own) - 1)
            passing = Passing(world)
            await passing.since()
            program = spoofing([(gateway, 443), (gateway, 80), (plan.ALLOWED, 443), (plan.DENIED, 9999)], sources)
            async with in_its_place(daemon, place, own, program):
                await tried.until(lambda: tried.sources >= set(sources))
            assert await passing.since() == set()


async def test_in_the_open_such_sources_are_seen(world):
    read, sources = len((await world.packets()).packets), {"198.51.100.77", plan.HOST}
    program = spoofing([(plan.ALLOWED, 443), (plan.DENIED, 9999)], sorted(sources)).replace("while True", "if True")
    outcome = await world.plain([sys.executable, "-I", "-c", program])
    assert outcome.returncode == 0, outcome.stderr
    assert {packet.source for packet in (await world.packets()).packets[read:] if not packet.outgoing} >= sources
