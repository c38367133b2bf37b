"""A name that policy takes back loses its open tunnels, as the guest and the world see it; another's goes on."""

import asyncio
import contextlib

import pytest
import pytest_asyncio

from opensafe.client import Stdout
from opensafe.proof.world import Kind, World
from tests.harness.way_out import Place, daemon_before, site

#: The world is read by a task of this loop.
pytestmark = [pytest.mark.root, pytest.mark.runsc, pytest.mark.asyncio(loop_scope="module")]

UPLINK = "10.203.245.0/30"
KEPT, TAKEN = "allowed.test", "git.test"
#: Asks over one tunnel for each name, again and again, and then tries to have another.
PROGRAM = """
import socket, ssl, sys, threading, time, urllib.parse
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

def ask(peer, name):
    peer.sendall(b"GET /hello HTTP/1.1\\r\\nHost: " + name.encode() + b"\\r\\n\\r\\n")
    answer = peer.recv(4096)
    if not answer.endswith(b"hello from the world\\n"):
        raise OSError(answer)

def tunnel(name):
    with socket.create_connection((name, 443), 10) as peer, context.wrap_socket(peer, server_hostname=name) as inner:
        while True:
            ask(inner, name)
            print(name, "answers", flush=True)
            time.sleep(0.05)

def hold(name):
    for what in ("ended", "refused"):
        try:
            tunnel(name)
        except TimeoutError:
            print(name, "hangs", flush=True)
        except OSError:
            print(name, what, flush=True)

for url in sys.argv[1:]:
    threading.Thread(target=hold, args=(urllib.parse.urlsplit(url).hostname,)).start()
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world():
    async with World.open() as opened:
        yield opened


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def daemon(world, directory):
    with daemon_before(world, directory, UPLINK, [KEPT, TAKEN]) as made:
        yield made


async def test_NW_30_a_name_taken_back_loses_its_tunnel_and_another_keeps_its_own(daemon, directory, world):
    narrower, _ = site(directory, [KEPT], number=2)
    async with Place.open(daemon) as place, asyncio.timeout(60):
        await place.write("hold.py", PROGRAM)
        async with contextlib.aclosing(place.call(f"python3 hold.py https://{KEPT}/ https://{TAKEN}/")) as call:
            lines = said(call)
            await until(lines, f"{KEPT} answers", f"{TAKEN} answers")
            tunnels = {event.name: event.source for event in world.log if event.kind is Kind.HELLO}
            narrower.rename(daemon.paths.bundle)
            await until(lines, f"{TAKEN} ended", f"{TAKEN} refused")
            await world.until(lambda event: event.kind is Kind.CLOSED and event.source == tunnels[TAKEN])
            for _ in range(3):
                await until(lines, f"{KEPT} answers")
    assert {event.name: event.source for event in world.log if event.kind is Kind.HELLO} == tunnels
    assert sum(event.kind is Kind.HELLO for event in world.log) == len(tunnels)


async def said(call):
    """What a call's program says, line by line."""
    rest = b""
    async for event in call:
        if isinstance(event, Stdout):
            *lines, rest = (rest + event.data).split(b"\n")
            for line in lines:
                yield line.decode()


async def until(lines, *wanted):
    """Read on until each of these was said; a tunnel that is to stay says nothing else meanwhile."""
    missing = set(wanted)
    while missing:
        line = await anext(lines)
        assert line in {*wanted, f"{KEPT} answers", f"{TAKEN} answers"}
        missing.discard(line)
