"""A world leaves nothing behind, however it ends, and takes nothing that is in use."""

import asyncio
import pathlib
import subprocess
import sys

import pytest
from pyroute2 import IPRoute

from opensafe.proof.world import World, links, plan

pytestmark = pytest.mark.root

_PROGRAM = """
import asyncio
from opensafe.proof.world import World
async def main():
    async with World.open():
        print("open", flush=True)
        await asyncio.to_thread(input)
asyncio.run(main())
"""


def state():
    with IPRoute() as host:
        names = {link.get("ifname") for link in host.get_links()}
        routes = {(route.get("dst"), route.get("oif")) for route in host.get_routes()}
    return names, routes, pathlib.Path("/run/opensafe-world").exists()


@pytest.fixture
def opened():
    """Open a world in a process of its own, which closes it when it gets a line."""
    made = []

    def start():
        made.append(subprocess.Popen([sys.executable, "-c", _PROGRAM], stdin=-1, stdout=-1, stderr=-1))
        return made[-1]

    yield start
    for process in made:
        process.kill()
        process.communicate()


def test_nw29_nothing_is_left_after_it_is_closed(opened):
    before = state()
    process = opened()
    assert process.stdout.readline() == b"open\n"
    assert state() != before
    _, said = process.communicate(b"\n")
    assert process.returncode == 0, said.decode()
    assert state() == before


def test_nw29_nothing_is_in_the_way_after_its_owner_was_killed(opened):
    killed = opened()
    assert killed.stdout.readline() == b"open\n"
    killed.kill()
    # The next one waits for the lock, which goes with the servers, and needs the same addresses.
    assert opened().stdout.readline() == b"open\n"


def test_a_second_one_waits_for_the_first(opened):
    first = opened()
    assert first.stdout.readline() == b"open\n"
    second = opened()
    first.stdin.write(b"\n")
    first.stdin.flush()
    assert second.stdout.readline() == b"open\n"
    assert first.wait(30) == 0


def test_an_address_in_use_is_refused_and_stays_as_it_was(opened):
    asyncio.run(links.sweep())  # of those that were killed above
    with IPRoute() as host:
        host.link("add", ifname="owtaken", kind="veth", peer={"ifname": "owtaken-peer"})
        index = host.link_lookup(ifname="owtaken")[0]
        try:
            host.link("set", index=index, state="up")
            host.route("add", dst=plan.NETWORK, oif=index)
            before = state()[:2]  # the directory may be one of those that were killed
            _, said = opened().communicate(b"\n")
            assert "HostUnsuitable" in said.decode()
            assert plan.NETWORK in said.decode()
            assert state()[:2] == before
        finally:
            host.link("del", index=index)


def test_its_networks_are_the_routed_ones_without_the_traps():
    assert set(World.networks) == set(links.ROUTED) - set(plan.TRAPS)
