"""Listed endpoints in the gateway's namespace: what leads to the splice, and where a socket made for it may go."""

import asyncio
import contextlib
import pathlib
import secrets
import socket
import subprocess
import types

import pytest

from opensafe.config import EgressSettings
from opensafe.egress.splice import original
from opensafe.warden.network import firewall, namespaces
from opensafe.warden.network.gateway import Gateway, remove

#: Of a /30 that no other test has.
UPLINK = "10.203.246.0/30"
NAME, OTHER = "10.203.0.7", "10.203.0.9"
#: A server behind the uplink, one that is never vetted, and their network.
SERVER, UNVETTED, NETWORK = "203.0.113.194", "203.0.113.195", "203.0.113.192/28"


@pytest.fixture
async def gateway(tmp_path):
    instance = secrets.token_hex(5)
    settings = EgressSettings(uplink=UPLINK, vetted_also=(NETWORK,))
    made = await Gateway.open(tmp_path / "gateway", settings, instance, 64001)
    listeners = dict(zip(("dns", "splice"), made.take_sockets()[1::2], strict=True))
    yield types.SimpleNamespace(path=tmp_path, own=tmp_path / "gateway", made=made, instance=instance, **listeners)
    await made.close()
    assert await remove(tmp_path / "gateway", instance) == []


@pytest.fixture
async def guest(gateway):
    path = gateway.path / "guest"
    await namespaces.create(path)
    link = await gateway.made.attach(path)
    inside = ("nsenter", f"--net={path}", "ip")
    run(*inside, "addr", "add", f"{link.guest}/31", "dev", "eth0")
    run(*inside, "route", "add", "default", "via", link.gateway)
    yield path
    await gateway.made.detach(link)
    namespaces.remove(path)


@pytest.fixture
def server(gateway):
    """Behind the uplink, in a namespace of its own: every address of NETWORK, and two ports."""
    name = f"e{gateway.instance[:8]}"
    host, far = f"{name}h", f"{name}f"
    run("ip", "netns", "add", name)
    try:
        run("ip", "link", "add", host, "type", "veth", "peer", "name", far, "netns", name)
        run("ip", "addr", "add", "203.0.113.193/28", "dev", host)
        run("ip", "link", "set", host, "up")
        run("sysctl", "-qw", f"net.ipv4.conf.{host}.forwarding=1")
        for address in (SERVER, UNVETTED):
            run("ip", "-n", name, "addr", "add", f"{address}/28", "dev", far)
        run("ip", "-n", name, "link", "set", far, "up")
        run("ip", "-n", name, "link", "set", "lo", "up")
        yield name
    finally:
        run("ip", "netns", "del", name)


@contextlib.asynccontextmanager
async def listening(server, *ports):
    path = pathlib.Path("/run/netns", server)
    made = await namespaces.inside(path, lambda: [socket.create_server(("", port)) for port in ports])
    try:
        yield
    finally:
        for one in made:
            one.close()


def run(*command):
    subprocess.run(command, check=True)


def tried(client, pair):
    """`open`, or the name of the error."""
    client.settimeout(5)
    try:
        client.connect(pair)
    except OSError as error:
        return type(error).__name__
    return "open"


async def connected(path, pair):
    return await namespaces.inside(path, lambda: socket.create_connection(pair, timeout=5))


async def dial(path, pair):
    def there():
        with socket.socket() as client:
            return tried(client, pair)

    return await namespaces.inside(path, there)


async def test_NW_01_a_synthetic_address_leads_nowhere_until_it_is_listed_and_then_only_by_its_port(gateway, guest):
    pairs = [(NAME, 5432), (NAME, 80), (NAME, 22), (OTHER, 5432)]
    assert [await dial(guest, pair) for pair in pairs] == ["ConnectionRefusedError"] * 4
    await gateway.made.endpoints.set([(NAME, 5432)])
    assert await dial(guest, (NAME, 5432)) == "open"
    assert [await dial(guest, pair) for pair in pairs[1:]] == ["ConnectionRefusedError"] * 3
    own = await namespaces.inside(gateway.own, lambda: socket.create_server(("", 80)))  # as Envoy listens
    with own:
        assert await dial(guest, (NAME, 80)) == "open"
        assert await dial(guest, (NAME, 443)) == "ConnectionRefusedError"  # nobody is there
        assert await dial(guest, (OTHER, 80)) == "ConnectionRefusedError"
    await gateway.made.endpoints.set([(OTHER, 5432)])
    assert await dial(guest, (OTHER, 5432)) == "open"
    assert await dial(guest, (NAME, 5432)) == "ConnectionRefusedError"
    await gateway.made.endpoints.set([])
    assert await dial(guest, (OTHER, 5432)) == "ConnectionRefusedError"


async def test_what_was_meant_is_told_to_the_splice_and_nobody_reaches_it_otherwise(gateway, guest):
    await gateway.made.endpoints.set([(NAME, 5432), (OTHER, 22)])
    gateway.splice.settimeout(5)
    for pair in ((NAME, 5432), (OTHER, 22)):
        client = await connected(guest, pair)
        accepted, source = gateway.splice.accept()
        with client, accepted:
            assert original(accepted) == pair
            assert source == client.getsockname()
    gateways = (firewall.RESOLVER[0], "10.201.0.0", NAME)
    assert {await dial(guest, (address, firewall.SPLICE)) for address in gateways} == {"ConnectionRefusedError"}
    assert await dial(gateway.own, ("127.0.0.1", firewall.SPLICE)) == "ConnectionRefusedError"


async def test_NW_12_a_socket_goes_to_what_was_vetted_for_it_and_nowhere_else(gateway, server):
    await gateway.made.endpoints.set([(NAME, 5432)])
    async with listening(server, 5432, 5433):
        made = await gateway.made.endpoints.dial(SERVER, 5432)
        with made:
            assert tried(made, (SERVER, 5432)) == "open"
        for pair in ((SERVER, 5433), (UNVETTED, 5432), ("10.203.246.1", 22), ("10.201.0.1", 22)):
            with await gateway.made.endpoints.dial(SERVER, 5432) as made:
                assert tried(made, pair) == "ConnectionRefusedError"
        assert await dial(gateway.own, (SERVER, 5432)) == "ConnectionRefusedError"  # no mark
        with await gateway.made.endpoints.dial(SERVER, 5432) as made:
            await gateway.made.endpoints.set([(NAME, 5433)])
            assert tried(made, (SERVER, 5432)) == "ConnectionRefusedError"
        with await gateway.made.endpoints.dial(SERVER, 5433) as made:
            assert tried(made, (SERVER, 5433)) == "open"


async def test_whoever_gets_the_socket_can_make_no_other_such(gateway, server):
    """As the helper: no capability, descriptors from there. It can connect, and it can't mark what it makes itself."""
    await gateway.made.endpoints.set([(NAME, 5432)])
    program = f"""
import socket, sys
pairs = [({UNVETTED!r}, 5432), ({SERVER!r}, 5432)]
for number, pair in zip(sys.argv[1:], pairs):
    given = socket.socket(fileno=int(number))
    given.settimeout(5)
    try: given.connect(pair)
    except ConnectionRefusedError: print("refused")
    else: print("open")
for one in (given, socket.socket()):
    try: one.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, {firewall.MARK} + 1)
    except PermissionError: print("no mark")
"""
    async with listening(server, 5432):
        made = [await gateway.made.endpoints.dial(SERVER, 5432) for _ in range(2)]
        numbers = [one.fileno() for one in made]
        user = ("setpriv", "--reuid=65534", "--clear-groups", "/usr/bin/python3.11", "-c", program)
        given = await asyncio.create_subprocess_exec(
            *user, *map(str, numbers), pass_fds=numbers, stdout=subprocess.PIPE
        )
        said, _ = await given.communicate()
        for one in made:
            one.close()
    assert said.decode().splitlines() == ["refused", "open", "no mark", "no mark"]


@pytest.mark.parametrize(
    "pair",
    [("10.201.0.1", 22), (SERVER, 22), (NAME, 53), (NAME, 80), (NAME, 443), (NAME, 0)],
)
async def test_what_is_no_endpoint_is_not_listed(gateway, pair):
    with pytest.raises(ValueError, match="is no"):
        await gateway.made.endpoints.set([(NAME, 5432), pair])
    assert "5432" not in rules(gateway, "endpoints")


@pytest.mark.parametrize(
    "pair",
    [("10.0.0.1", 5432), ("127.0.0.1", 5432), ("169.254.169.254", 5432), (NAME, 5432), (SERVER, 22), (SERVER, 443)],
)
async def test_NW_12_what_is_not_global_or_not_listed_is_not_vetted(gateway, pair):
    await gateway.made.endpoints.set([(NAME, 5432)])
    with pytest.raises(ValueError, match=r"is not|is no|is this|no listed endpoint"):
        await gateway.made.endpoints.dial(*pair)
    assert "elements" not in rules(gateway, "dialled")
    (await gateway.made.endpoints.dial(SERVER, 5432)).close()  # the control
    assert f"{SERVER} . 5432" in rules(gateway, "dialled")


def rules(gateway, name):
    command = ("nsenter", f"--net={gateway.own}", "nft", "list", "set", "inet", firewall.TABLE, name)
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout
