"""A daemon with a way out before a world, a place in it for a guest, and what a guest sends as its gateway sees it."""

import asyncio
import contextlib
import ipaddress
import json
import os
import signal
import socket
import sys

from opensafe.client import collect
from opensafe.errors import NotFound, Unavailable
from opensafe.proof.world import links
from opensafe.proof.world.events import DATA_MAX, dissect
from opensafe.warden.network import namespaces
from tests.harness.daemon import running
from tests.harness.policy import site_bundle

ALLOWED = ["allowed.test", "git.test", "pypi.test"]
_ETH_P_ALL = 3
_PACKET_OUTGOING = 4
_SO_RCVBUFFORCE = 33
_RECEIVE_BUFFER = 16 << 20
_SYN, _ACK = 0x02, 0x10


def site(directory, allowed, more=lambda _: None, number=1):
    """A bundle that allows these names, and the file of its key. more: changes its settings further."""

    def change(data):
        data["hosts"]["allowed"] += allowed
        data["images"]["dev"] = "any"
        data["ceilings"]["blocks_in_ten_minutes"] = 10_000  # a guest here is refused more often than honest work is
        more(data)

    return site_bundle(directory, number=number, change=change)


@contextlib.contextmanager
def daemon_before(world, directory, uplink, allowed=ALLOWED, more=lambda _: None, **settings):
    """A daemon whose bundle is such a `site`. uplink: a /30 that no other test's has."""
    bundle, key = site(directory, allowed, more)
    with running(egress=world.egress(uplink), bundle=bundle, key=key, staffed=True, **settings) as daemon:
        yield daemon


def connections(daemon, *, sent=0, **fields):
    """Records of connections that have these fields, of a tuple one of its values, and have sent so much."""
    records = [json.loads(line) for line in daemon.audit_lines() if b'"kind":"connection"' in line]
    wanted = {name: value if isinstance(value, tuple) else (value,) for name, value in fields.items()}
    return [
        one for one in records if one["sent"] >= sent and all(one[name] in values for name, values in wanted.items())
    ]


async def recorded_all(daemon, enough=bool, **fields):
    """Such records, when there are enough of them: any, as it stands."""
    async with asyncio.timeout(20):
        while not enough(found := connections(daemon, **fields)):  # noqa: ASYNC110 - the log tells nobody
            await asyncio.sleep(0.05)
    return found


async def recorded(daemon, **fields):
    """The first of them, when it is there."""
    return (await recorded_all(daemon, **fields))[0]


class Place:
    """A sandbox for a guest, of a session of its own."""

    def __init__(self, agent, session, sandbox):
        self.agent = agent
        self.session = session
        self.sandbox = sandbox
        self._calls = 0

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, daemon, template="base"):
        """Make it; it is gone afterwards."""
        async with daemon.client() as agent:
            session = await agent.create_session("tester")
            yield cls(agent, session, (await agent.create_sandbox(session, template)).sandbox_id)
            with contextlib.suppress(Unavailable, NotFound):  # a daemon that died meanwhile, or its front
                await agent.close_session(session)

    def name(self):
        """For the next call."""
        self._calls += 1
        return f"call{self._calls}"

    async def write(self, path, content):
        """Put a file into the workspace."""
        await self.agent.files(self.session, self.sandbox).write(f"/workspace/{path}", content.encode())

    async def run(self, command):
        """One call to its end. What ran in the sandbox before may need a moment to be gone."""
        while True:
            call_id = self.name()
            done = await self.agent.run_call(self.session, self.sandbox, call_id, "Bash", {"command": command})
            if "for itself" not in done.outcome.detail:
                return done

    async def held(self, command, happened):
        """One call to its end, which it comes to once something has `happened`."""
        asked = {"command": f"{command}; cat"}
        call = self.agent.call(self.session, self.sandbox, self.name(), "Bash", asked, interactive=True)
        ending = asyncio.create_task(collect(call, 1 << 16))
        await happened()
        await call.close_stdin()
        return await ending

    def call(self, command):
        """One call's events as they come."""
        return self.agent.call(self.session, self.sandbox, self.name(), "Bash", {"command": command})


@contextlib.asynccontextmanager
async def in_its_place(daemon, place, address, program):
    """A process of the host's, behind a sandbox's link under its address, while its sentry stands still.

    So something tries also where the guest is paused or has ended, and is judged as the guest would be.
    """
    sentry = daemon.process_of(place.sandbox, "runsc-sandbox")
    inside = ("nsenter", f"--net={daemon.run / 'netns' / place.sandbox}")
    gateway = str(ipaddress.IPv4Address(address) - 1)
    os.kill(sentry, signal.SIGSTOP)
    try:
        await _done(*inside, "ip", "addr", "add", f"{address}/31", "dev", "eth0")
        await _done(*inside, "ip", "route", "add", "default", "via", gateway)
        trying = await asyncio.create_subprocess_exec(*inside, sys.executable, "-I", "-c", program)
        try:
            yield
        finally:
            trying.kill()
            await trying.wait()
            await _done(*inside, "ip", "addr", "flush", "dev", "eth0")
    finally:
        os.kill(sentry, signal.SIGCONT)


async def _done(*argv):
    process = await asyncio.create_subprocess_exec(*argv)
    assert await process.wait() == 0, argv


async def nothing_open(daemon):
    """Wait until no guest has a connection with the gateway."""
    namespace = daemon.run / "netns/gateway"
    listing = ("ss", "-Htn", "state", "established", "src", "10.201.0.0/16")
    async with asyncio.timeout(10):
        while True:
            shown = await asyncio.create_subprocess_exec(
                "nsenter", f"--net={namespace}", *listing, stdout=asyncio.subprocess.PIPE
            )
            if not (await shown.communicate())[0].strip():
                return


class Passing:
    """What passes from the host to the world's link, from one reading to the next."""

    def __init__(self, world):
        self._world = world
        self._read = 0

    async def since(self):
        """What has opened something or carried a byte since the last time, as protocol, address and port."""
        capture = await self._world.packets()
        assert capture.whole
        new, self._read = capture.packets[self._read :], len(capture.packets)
        return {
            (packet.protocol, packet.target, packet.port)
            for packet in new
            if packet.link == links.TO_HOST and not packet.outgoing and packet.tells
        }


class Tried:
    """What guests sent, as it arrives at their gateway: how often to which protocol, address and port.

    Of TCP the first packets of connections alone. The gateway's own address, another for each guest, is `gateway`.
    """

    def __init__(self, listening, own):
        self.counts = {}
        self.guest = ""  # the last one's address
        self.sources = set()
        self._socket = listening
        self._own = own
        self._more = asyncio.Event()

    @classmethod
    @contextlib.asynccontextmanager
    async def watch(cls, daemon, own):
        """own: the prefix of all gateways' addresses."""
        listening = await namespaces.inside(daemon.run / "netns/gateway", _listen)
        tried = cls(listening, own)
        loop = asyncio.get_running_loop()
        loop.add_reader(listening, tried.read)
        try:
            yield tried
        finally:
            loop.remove_reader(listening)
            listening.close()

    async def round(self, wanted):
        """Wait until each of these was tried twice from now on: then one whole turn of a guest's lies within."""
        self.read()
        before = dict(self.counts)
        await self.until(lambda: all(self.counts.get(one, 0) >= before.get(one, 0) + 2 for one in wanted))

    async def until(self, true):
        """Wait until something holds, which is asked whenever something has arrived."""
        async with asyncio.timeout(60):
            while not true():
                self._more.clear()
                await self._more.wait()

    def read(self):
        """Take in what has arrived by now."""
        with contextlib.suppress(BlockingIOError):
            while True:
                frame, (interface, _, kind, *_) = self._socket.recvfrom(DATA_MAX)
                packet = dissect(frame, len(frame), link=interface, outgoing=kind == _PACKET_OUTGOING)
                opens = packet.protocol != "tcp" or packet.flags & (_SYN | _ACK) == _SYN
                if interface.startswith("g") and not packet.outgoing and opens:
                    target = "gateway" if packet.target.startswith(self._own) else packet.target
                    self.guest = packet.source or self.guest
                    self.sources.add(packet.source)
                    key = packet.protocol, target, packet.port
                    self.counts[key] = self.counts.get(key, 0) + 1
                    self._more.set()


def _listen():
    kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK
    listening = socket.socket(socket.AF_PACKET, kind, socket.htons(_ETH_P_ALL))
    listening.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
    return listening
