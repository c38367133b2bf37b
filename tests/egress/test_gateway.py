"""The gateway's namespace: what reaches it, what is refused, what can leave it, and that nothing of it is left."""

import asyncio
import contextlib
import secrets
import socket
import subprocess
import threading
import types

import pytest

from opensafe.config import EgressSettings
from opensafe.errors import LimitExceeded
from opensafe.warden.network import namespaces
from opensafe.warden.network.gateway import Gateway, remove

OWNER = 64001
BEYOND = "198.51.100.1"
#: The host's own, beside the world's.
HOST = "198.51.100.254"
#: Of a /30 that no other test has.
UPLINK = "10.203.250.0/30"


@pytest.fixture
async def gateway(tmp_path):
    instance = secrets.token_hex(5)
    settings = EgressSettings(uplink=UPLINK, vetted_also=("198.51.100.0/24",))
    made = await Gateway.open(tmp_path / "gateway", settings, instance, OWNER)
    place = types.SimpleNamespace(path=tmp_path, instance=instance)
    for name in ("attach", "detach", "vet", "cut", "cut_all", "take_sockets", "refusals", "take_untold", "link_by"):
        setattr(place, name, getattr(made, name))
    yield place
    await made.close()
    assert await remove(tmp_path / "gateway", instance) == []
    assert f"os{instance}" not in shown("ip", "link")
    assert instance not in shown("nft", "list", "tables")


@pytest.fixture
async def guests(gateway):
    """Two namespaces with links, as pairs of path and link."""
    made = []
    for name in ("one", "two"):
        path = gateway.path / name
        await namespaces.create(path)
        made.append((path, await gateway.attach(path)))
        configure(*made[-1])
    yield made
    for path, link in made:
        await gateway.detach(link)
        namespaces.remove(path)


def configure(path, link):
    """What gVisor's own stack does in a sandbox: a plain process has the kernel's."""
    inside = ("nsenter", f"--net={path}", "ip")
    shown(*inside, "addr", "add", f"{link.guest}/31", "dev", "eth0")
    shown(*inside, "route", "add", "default", "via", link.gateway)


def shown(*command):
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def dial(address, port, kind=socket.SOCK_STREAM, source=None):
    """`open`, or the name of the error."""
    with socket.socket(socket.AF_INET, kind) as client:
        client.settimeout(1)
        if source:
            client.bind((source, 0))
        try:
            client.connect((address, port))
            if kind == socket.SOCK_DGRAM:
                client.send(b"x")
                client.recv(16)
        except OSError as error:
            return type(error).__name__
        return "open"


async def inside(path, *arguments, **more):
    return await namespaces.inside(path, lambda: dial(*arguments, **more))


async def test_NW_01_all_but_the_gateways_own_ports_is_refused_at_the_first_packet(gateway, guests):
    path, link = guests[0]
    assert await inside(path, link.gateway, 53) == "open"  # the control
    for address, port in ((link.gateway, 22), (BEYOND, 443), (BEYOND, 80), ("10.203.250.1", 22), ("8.8.8.8", 853)):
        assert await inside(path, address, port) == "ConnectionRefusedError"


async def test_NW_02_udp_is_refused_and_not_left_hanging(guests):
    path, link = guests[0]
    for _ in range(30):  # more than the kernel's own rate of such answers
        assert await inside(path, BEYOND, 443, kind=socket.SOCK_DGRAM) == "ConnectionRefusedError"
    assert await inside(path, link.gateway, 5353, kind=socket.SOCK_DGRAM) == "ConnectionRefusedError"


async def test_sandboxes_are_no_neighbours(guests):
    (path, _), (_, other) = guests
    for address in (other.guest, other.gateway):
        assert await inside(path, address, 53) == "ConnectionRefusedError"


async def test_NW_28_a_source_that_is_not_the_links_own_is_not_heard(gateway, guests):
    (path, link), (_, other) = guests
    shown("nsenter", f"--net={path}", "ip", "addr", "add", f"{other.guest}/32", "dev", "eth0")
    assert await inside(path, link.gateway, 53, source=other.guest) == "TimeoutError"
    assert await inside(path, link.gateway, 53, source=link.guest) == "open"


async def test_NW_07_there_is_no_ipv6(gateway, guests):
    path, _ = guests[0]
    for namespace in (path, gateway.path / "gateway"):
        assert shown("nsenter", f"--net={namespace}", "ip", "-6", "addr") == ""


async def test_nothing_is_forwarded_and_the_rule_alone_would_hold(gateway, guests):
    """Even a gateway that forwards lets nothing through: refused where it arrives."""
    path, _ = guests[0]
    own = f"--net={gateway.path / 'gateway'}"
    assert shown("nsenter", own, "sysctl", "-n", "net.ipv4.ip_forward").strip() == "0"
    shown("nsenter", own, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    assert await inside(path, "10.203.250.1", 22) == "ConnectionRefusedError"


async def test_NW_01_a_forwarding_gateway_without_rules_would_let_it_through(gateway, guests):
    """The control of all of the above: what holds is the rules, and ip_forward alone as well."""
    path, _ = guests[0]
    own = f"--net={gateway.path / 'gateway'}"
    with listening_on_the_uplink(gateway) as (address, port):
        assert await inside(path, address, port) == "ConnectionRefusedError"
        shown("nsenter", own, "nft", "flush ruleset; add table ip open;")
        shown(
            *("nsenter", own, "nft"),
            "add chain ip open leave { type nat hook postrouting priority 100; };"
            'add rule ip open leave oifname "uplink" masquerade',
        )
        assert await inside(path, address, port) != "open"
        shown("nsenter", own, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        assert await inside(path, address, port) == "open"


async def test_NW_12_the_hosts_own_addresses_are_refused_though_vetted(gateway):
    own = gateway.path / "gateway"
    with listening_on_the_uplink(gateway) as (address, port), socket.create_server((HOST, 80)):
        await gateway.vet([address, HOST, HOST], 60)
        assert as_owner(own, address, port) == "open"
        assert as_owner(own, HOST, 80) == "ConnectionRefusedError"
        assert dial(HOST, 80) == "open"  # the control: it does listen


async def test_the_owner_opens_nothing_to_guests_nor_to_the_gateway_itself(gateway, guests):
    (path, link), own = guests[0], gateway.path / "gateway"
    served = await namespaces.inside(path, lambda: socket.create_server((link.guest, 80)))
    with served:
        assert await inside(path, link.guest, 80) == "open"
        await gateway.vet(["198.51.100.10"], 60)
        for address, port in ((link.guest, 80), (link.gateway, 53), ("127.0.0.1", 53)):
            assert as_owner(own, address, port) == "ConnectionRefusedError"
    program = "import socket; s = socket.socket(2, 2); s.connect(('127.0.0.1', 5353)); s.send(b'?')"
    shown(
        "nsenter", f"--net={own}", "setpriv", f"--reuid={OWNER}", "--clear-groups", "/usr/bin/python3.11", "-c", program
    )
    resolver = gateway.take_sockets()[2]
    resolver.settimeout(5)
    assert resolver.recv(16) == b"?"


async def told(gateway, count):
    """The next refusals."""
    refusals = gateway.refusals()
    async with asyncio.timeout(10):
        return [await anext(refusals) for _ in range(count)]


async def test_refusals_are_told_with_who_and_where(gateway, guests):
    path, link = guests[0]
    assert await inside(path, link.gateway, 53) == "open"  # the control: that is no refusal
    await inside(path, BEYOND, 8443)
    await inside(path, "8.8.8.8", 123, kind=socket.SOCK_DGRAM)
    first, second = await told(gateway, 2)
    assert (first.source, first.protocol, first.address, first.port) == (link.guest, "tcp", BEYOND, 8443)
    assert (second.source, second.protocol, second.address, second.port) == (link.guest, "udp", "8.8.8.8", 123)
    assert [gateway.link_by(one.came_by) for one in (first, second)] == [link, link]
    assert [one.why for one in (first, second)] == ["closed", "closed"]
    assert [one.sequence for one in (first, second)] == [0, 1]
    assert gateway.take_untold() == 0


async def test_whose_a_forged_packet_is_tells_the_way_that_it_came(gateway, guests):
    (path, link), (_, other) = guests
    shown("nsenter", f"--net={path}", "ip", "addr", "add", f"{other.guest}/32", "dev", "lo")
    assert await inside(path, BEYOND, 443, source=other.guest) == "TimeoutError"
    forged = (await told(gateway, 1))[0]
    assert (forged.why, forged.source, gateway.link_by(forged.came_by)) == ("spoofed", other.guest, link)


async def test_one_that_floods_is_told_at_a_rate_and_counted_beyond_it_and_hides_nobody(gateway, guests):
    (loud, _), (path, link) = guests

    def flood():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            for number in range(3000):
                with contextlib.suppress(OSError):
                    client.sendto(b"x", (BEYOND, 1 + number))

    await namespaces.inside(loud, flood)
    await inside(path, BEYOND, 8443)
    refusals = gateway.refusals()
    seen = 0
    async with asyncio.timeout(10):
        while (one := await anext(refusals)).source != link.guest:
            seen += 1
    assert (one.address, one.port) == (BEYOND, 8443)
    untold = gateway.take_untold()
    assert seen < 1000
    assert seen + untold == 3000
    assert gateway.take_untold() == 0


async def test_RS_16_questions_take_no_place_in_the_kernels_table(gateway, guests):
    path, link = guests[0]
    responder = gateway.take_sockets()[0]
    responder.settimeout(5)

    def ask():
        asking = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(50)]
        for one in asking:
            one.sendto(b"?", (link.gateway, 53))
        return asking

    asking = await namespaces.inside(path, ask)
    for _ in asking:
        data, sender = responder.recvfrom(16)
        responder.sendto(data, sender)
    for one in asking:
        with one:
            one.settimeout(5)
            assert one.recv(16) == b"?"
    assert tracked(gateway) == 0
    assert await inside(path, link.gateway, 53) == "open"
    assert tracked(gateway) == 1  # the control


async def test_RS_16_whoever_gets_the_address_next_gets_the_whole_of_it(gateway, guests):
    """Also where the guest is gone first, so that no reset can reach it."""
    path = gateway.path / "brief"
    await namespaces.create(path)
    try:
        link = await gateway.attach(path)
        configure(path, link)
        held = await namespaces.inside(path, lambda: socket.create_connection((link.gateway, 53), timeout=5))
        with held:
            assert tracked(gateway) == 1
            await gateway.detach(link)
            assert tracked(gateway) == 0
    finally:
        namespaces.remove(path)


def tracked(gateway):
    own = f"--net={gateway.path / 'gateway'}"
    return int(shown("nsenter", own, "cat", "/proc/sys/net/netfilter/nf_conntrack_count"))


async def test_two_daemons_have_each_its_own(gateway, tmp_path):
    settings = EgressSettings(links="10.204.0.0/28", uplink="10.203.252.0/30")
    other = await Gateway.open(tmp_path / "another", settings, secrets.token_hex(5), OWNER)
    await other.close()
    assert f"os{gateway.instance}" in shown("ip", "link")
    assert gateway.instance in shown("nft", "list", "tables")


async def test_only_the_owner_dials_and_only_what_was_vetted(gateway):
    with listening_on_the_uplink(gateway) as (address, port_80):
        own = gateway.path / "gateway"
        assert as_owner(own, address, port_80) == "ConnectionRefusedError"
        await gateway.vet([address], 60)
        assert as_owner(own, address, port_80) == "open"
        assert as_owner(own, address, 81) == "ConnectionRefusedError"
        assert await inside(own, address, port_80) == "ConnectionRefusedError"  # root, whom nobody vetted it for


@contextlib.contextmanager
def listening_on_the_uplink(gateway):
    """A server behind the uplink, at an address of the documentation's, in a namespace of its own."""
    name = f"w{gateway.instance[:8]}"
    host, far = f"{name}h", f"{name}f"

    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    ip("netns", "add", name)
    try:
        ip("link", "add", host, "type", "veth", "peer", "name", far, "netns", name)
        ip("addr", "add", f"{HOST}/24", "dev", host)
        ip("link", "set", host, "up")
        subprocess.run(["sysctl", "-qw", f"net.ipv4.conf.{host}.forwarding=1"], check=True)
        ip("-n", name, "addr", "add", "198.51.100.10/24", "dev", far)
        ip("-n", name, "link", "set", far, "up")
        ip("-n", name, "link", "set", "lo", "up")
        server = subprocess.Popen(
            ["ip", "netns", "exec", name, "python3", "-m", "http.server", "80", "--bind", "198.51.100.10"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PYTHONUNBUFFERED": "1", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        )
        try:
            assert b"Serving" in server.stdout.readline()
            yield "198.51.100.10", 80
        finally:
            server.kill()
            server.wait()
            server.stdout.close()
    finally:
        ip("netns", "del", name)


def as_owner(path, address, port):
    """Dial as the gateway's owner: in a process, because a user is of one."""
    program = f"import socket; socket.create_connection(({address!r}, {port}), timeout=2); print('open')"
    done = subprocess.run(
        [
            "nsenter",
            f"--net={path}",
            "setpriv",
            f"--reuid={OWNER}",
            "--clear-groups",
            "/usr/bin/python3.11",
            "-c",
            program,
        ],
        capture_output=True,
        check=False,
        text=True,
    )
    return "open" if done.returncode == 0 else done.stderr.strip().splitlines()[-1].partition(":")[0]


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "127.0.0.1", "169.254.169.254", "100.64.0.1", "224.0.0.1", "0.0.0.0", "10.201.0.1"]
)
async def test_NW_12_what_is_not_global_is_never_vetted(gateway, address):
    with pytest.raises(ValueError, match=address):
        await gateway.vet(["198.51.100.10", address], 60)
    assert "198.51.100.10" not in shown(
        "nsenter", f"--net={gateway.path / 'gateway'}", "nft", "list", "set", "inet", "opensafe", "vetted"
    )


async def test_NW_30_a_cut_ends_what_is_open_and_nothing_of_a_neighbour(gateway, guests):
    (path, link), (neighbour, other) = guests

    def hold(to):
        return socket.create_connection((to, 53), timeout=2)

    first, second = [await namespaces.inside(path, lambda: hold(link.gateway)) for _ in range(2)]
    theirs = await namespaces.inside(neighbour, lambda: hold(other.gateway))
    with first, second, theirs:
        assert await gateway.cut(link.guest, first.getsockname()[1]) >= 1
        assert ended(first)
        assert not ended(second)
        await gateway.cut(link.guest)
        assert ended(second)
        assert not ended(theirs)
        assert await gateway.cut("192.0.2.1") == 0  # no guest's
        await gateway.cut_all()
        assert ended(theirs)


def ended(client):
    client.settimeout(0.2)
    try:
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


async def test_RS_16_connections_of_one_guest_are_bounded(gateway, guests):
    (path, link), (neighbour, other) = guests

    def flood():
        held: list[socket.socket] = []
        try:
            while len(held) < 600:
                held += [socket.create_connection((link.gateway, 53), timeout=10)]
        except OSError as error:
            return len(held), type(error).__name__
        finally:
            for one in held:
                one.close()
        return len(held)

    threading.Thread(target=accept_all, args=(gateway.take_sockets()[1].dup(),), daemon=True).start()
    assert await namespaces.inside(path, flood) == (512, "ConnectionRefusedError")
    assert [(one.why, one.port) for one in await told(gateway, 1)] == [("full", 53)]
    assert await inside(neighbour, other.gateway, 53) == "open"


def accept_all(listener):
    with contextlib.suppress(OSError), listener:
        while True:
            listener.accept()[0].close()


async def test_links_come_back_and_run_out(tmp_path):
    settings = EgressSettings(links="10.201.0.0/28", uplink="10.203.251.0/30")
    made = await Gateway.open(tmp_path / "gateway", settings, secrets.token_hex(5), OWNER)
    paths, links = [tmp_path / str(number) for number in range(8)], []
    try:
        for path in paths:
            await namespaces.create(path)
            links.append(await made.attach(path))
        await namespaces.create(tmp_path / "more")
        paths.append(tmp_path / "more")
        with pytest.raises(LimitExceeded) as refused:
            await made.attach(tmp_path / "more")
        assert refused.value.value == "8"
        await made.detach(links[3])
        assert (await made.attach(tmp_path / "more")).guest == links[3].guest
    finally:
        for path in paths:
            namespaces.remove(path)
        await made.close()
