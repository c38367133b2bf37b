"""What leaves while a part of the way out is dead: nothing, as the world's links show it, and a guest tries all along.

Death is the end of the process, told by the kernel. While a part has to stay dead, the warden's confinement step fails,
so that no successor can start; how long that is, is told by what the guest tried meanwhile and not by a clock.
"""

import asyncio
import contextlib
import ipaddress
import os
import shutil
import sys

import pytest

from opensafe.errors import OpenSafeError, Unavailable
from opensafe.proof.world import Kind, plan
from tests.harness.daemon import Daemon, signal_process
from tests.harness.way_out import Passing, Place, Tried, daemon_before, in_its_place, nothing_open

#: The world is read by a task of this loop.
pytestmark = [pytest.mark.root, pytest.mark.runsc, pytest.mark.asyncio(loop_scope="module")]

UPLINK = "10.203.241.0/30"
SINK = "198.51.100.66"
#: A guest's turn, over and over: what is allowed, what is not, and a tunnel that it holds.
PROGRAM = f"""
import itertools, socket, ssl, struct, threading, time

SINK, RESOLVER = {SINK!r}, {plan.RESOLVER!r}
tls = ssl.create_default_context()
tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE

def gateway():
    for line in open("/proc/net/route").read().splitlines()[1:]:
        words = line.split()
        if words[1] == "00000000":
            return socket.inet_ntoa(struct.pack("<I", int(words[2], 16)))

def attempt(work, *words):
    try:
        return work(*words)
    except OSError:
        return None

def dial(address, port, data=b""):
    with socket.create_connection((address, port), 0.5) as peer:
        peer.sendall(data)
        return peer.recv(400)

def secured(address, name):
    with socket.create_connection((address, 443), 0.5) as peer, tls.wrap_socket(peer, server_hostname=name) as inner:
        inner.sendall(request(name))
        return inner.recv(400)

def datagram(address, port, data):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.settimeout(0.1)
        peer.connect((address, port))
        peer.send(data)
        return peer.recv(400)

def request(host):
    return b"GET /hello HTTP/1.1\\r\\nHost: " + host.encode() + b"\\r\\nConnection: close\\r\\n\\r\\n"

def question(name):
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return b"\\x12\\x34\\x01\\x00\\x00\\x01\\0\\0\\0\\0\\0\\0" + labels + b"\\0\\0\\x01\\0\\x01"

def hold():
    while True:
        try:
            with socket.create_connection((allowed, 443), 5) as peer, \\
                    tls.wrap_socket(peer, server_hostname="allowed.test") as inner:
                inner.sendall(b"POST /upload HTTP/1.1\\r\\nHost: allowed.test\\r\\nContent-Length: 9999999\\r\\n\\r\\n")
                while True:
                    inner.sendall(b"tick")
                    time.sleep(0.05)
        except OSError:
            time.sleep(0.05)

allowed, own = ADDRESS or socket.gethostbyname("allowed.test"), gateway()
threading.Thread(target=hold, daemon=True).start()
for turn in itertools.count():
    if turn == TURNS:
        break
    attempt(secured, allowed, "allowed.test")
    attempt(dial, allowed, 80, request("allowed.test"))
    attempt(secured, allowed, "denied.test")
    attempt(dial, allowed, 80, request("denied.test"))
    attempt(dial, allowed, 80, request(SINK))
    for port in (22, 53, 80, 443, 853):
        attempt(dial, SINK, port, b"raw")
    for port in (443, 9999):
        attempt(datagram, SINK, port, b"raw")
    for server in (own, RESOLVER, SINK):
        for name in ("allowed.test", "secret-of-mine.denied.test"):
            attempt(datagram, server, 53, question(name))
"""


def program(turns=0, address=""):
    """turns: 0 for no end. address: where the allowed name is, or it is asked for."""
    return f"TURNS, ADDRESS = {turns or None}, {address!r}\n{PROGRAM}"


#: What a turn sends, as the gateway sees it; both of a guest's names for one address are `gateway`.
TURN = [
    *(("tcp", "gateway", port) for port in (80, 443)),
    *(("tcp", SINK, port) for port in (22, 53, 80, 443, 853)),
    *(("udp", SINK, port) for port in (53, 443, 9999)),
    *(("udp", "gateway", 53), ("udp", plan.RESOLVER, 53)),
]
#: What may be seen of it in the world.
REACHED = {("tcp", plan.ALLOWED, 80), ("tcp", plan.ALLOWED, 443)}
OPEN = {*REACHED, ("udp", plan.RESOLVER, 53)}
#: Nobody waits any more for an answer that came.
UNANSWERED = {("icmp", plan.RESOLVER, 0)}


@pytest.fixture(scope="module")
def daemon(world, tmp_path_factory):
    """Its native programs are its own, so that one of them can be made to fail."""
    with daemon_before(world, tmp_path_factory.mktemp("site"), UPLINK, prepare=Daemon.own_programs) as made:
        yield made


@contextlib.contextmanager
def nobody_starts(daemon):
    """Whatever the warden would start in the meantime ends at once."""
    launch = daemon.run / "native/launch"
    works, fails = launch.with_name("works"), launch.with_name("fails")
    os.link(launch, works)
    shutil.copy("/bin/false", fails)
    fails.rename(launch)
    try:
        yield
    finally:
        works.rename(launch)


class Watched:
    """A guest that tries, before a world that looks."""

    def __init__(self, daemon, world, tried, place):
        self._daemon = daemon
        self._world = world
        self._tried = tried
        self._place = place
        self._passing = Passing(world)

    async def turn(self):
        """One whole turn of the guest."""
        await self._tried.round(TURN)

    async def passed(self):
        """What has reached the world's link since the last time."""
        return await self._passing.since()

    def in_its_place(self):
        """The same program in the guest's place, which stands still."""
        address = self._tried.guest
        gateway = str(ipaddress.IPv4Address(address) - 1)
        return in_its_place(self._daemon, self._place, address, program(address=gateway))

    async def ended(self):
        """Wait until nothing of the guest's runs."""
        async with asyncio.timeout(30):
            while self._daemon.guest_processes(self._place.sandbox) != ["init"]:  # noqa: ASYNC110 - its end is told to the front
                await asyncio.sleep(0.05)

    async def served(self):
        """Wait until the guest's requests arrive, of both layers."""
        before = len(self._world.log)
        for port in (80, 443):
            await self._world.until(
                lambda event, port=port: (
                    event.kind is Kind.REQUEST and event.port == port and event in self._world.log[before:]
                ),
                60,
            )


@contextlib.asynccontextmanager
async def trying(daemon, world):
    """A call that tries for as long as it lives, and is served."""
    async with Tried.watch(daemon, "10.201.") as tried, Place.open(daemon) as place:
        await place.write("go.py", program())
        call = asyncio.create_task(place.run("python3 go.py http://allowed.test/ https://allowed.test/"))
        try:
            watched = Watched(daemon, world, tried, place)
            await watched.passed()
            await watched.served()
            assert await watched.passed() >= REACHED
            yield watched
        finally:
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError, OpenSafeError):
                await call


async def kill(*processes):
    for process in processes:
        await asyncio.to_thread(signal_process, process)


async def test_in_the_open_the_same_program_reaches_all_of_it(world):
    before = len((await world.packets()).packets)
    outcome = await world.plain([sys.executable, "-I", "-c", program(turns=1)], timeout=60)
    assert outcome.returncode == 0, outcome.stderr
    new = (await world.packets()).packets[before:]
    seen = {(packet.protocol, packet.target, packet.port) for packet in new if not packet.outgoing and packet.tells}
    assert seen >= OPEN | {one for one in TURN if one[1] != "gateway"}
    assert {event.name for event in world.log if event.kind is Kind.HELLO} >= {"allowed.test", "denied.test"}


async def test_NW_26_nothing_leaves_while_envoy_is_dead(daemon, world):
    async with trying(daemon, world) as guest:
        await guest.turn()
        assert await guest.passed() <= OPEN
        with nobody_starts(daemon):
            await kill(daemon.envoy())
            await guest.turn()
            assert await guest.passed() <= OPEN  # what was under way
            await guest.turn()
            assert await guest.passed() == set()
        await guest.served()


async def test_NW_26_nothing_leaves_while_responder_resolver_and_judge_are_dead(daemon, world):
    async with trying(daemon, world) as guest:
        async with guest.in_its_place():  # the control
            await guest.served()
        with nobody_starts(daemon):
            await kill(daemon.child("helper"))
            await said(daemon, "the helper ended with")  # the guest is paused
            await nothing_open(daemon)
            assert await guest.passed() <= OPEN | UNANSWERED
            async with guest.in_its_place():
                await guest.turn()
            assert await guest.passed() == set()
        await guest.served()


async def test_NW_26_nothing_leaves_while_the_front_is_dead(daemon, world):
    async with trying(daemon, world) as guest:
        with nobody_starts(daemon):
            await kill(daemon.child("front"))
            await guest.ended()
            await nothing_open(daemon)
            assert await guest.passed() <= OPEN | UNANSWERED
            async with guest.in_its_place():
                await guest.turn()
            assert await guest.passed() == set()
    await again(daemon, world)


async def test_NW_26_nothing_leaves_once_the_daemon_is_dead(daemon, world):
    async with trying(daemon, world) as guest:
        parts = daemon.envoy(), daemon.child("helper"), daemon.child("front")
        await asyncio.to_thread(daemon.kill)
        await asyncio.gather(*map(ended, parts))
        assert await guest.passed() <= OPEN | UNANSWERED
        await guest.turn()
        assert await guest.passed() == set()
    await asyncio.to_thread(daemon.start)
    await again(daemon, world)


async def again(daemon, world):
    """Another guest is served, once the daemon serves clients again."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(Unavailable):
                async with trying(daemon, world):
                    return


async def said(daemon, words):
    async with asyncio.timeout(30):
        while words not in daemon.log.read_text():  # noqa: ASYNC110 - a log tells nobody
            await asyncio.sleep(0.05)


async def ended(process):
    """Wait for a process that ends by itself."""
    with contextlib.suppress(ProcessLookupError):
        await asyncio.to_thread(signal_process, process, 0)
