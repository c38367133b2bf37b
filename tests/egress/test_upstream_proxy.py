"""A site that reaches the world through an HTTP proxy alone: what passes, what never gets there, what fails how."""

import contextlib

import pytest
import pytest_asyncio

from opensafe.model.outcome import OutcomeKind
from opensafe.proof.world import Kind, plan
from opensafe.proof.world.proxy import MARK
from tests.harness.daemon import running
from tests.harness.policy import site_bundle
from tests.harness.way_out import Place, recorded

#: The world is read by a task of this loop.
pytestmark = [pytest.mark.root, pytest.mark.runsc, pytest.mark.asyncio(loop_scope="module")]

#: Policy would allow the proxy itself.
ALLOWED = ["allowed.test", "*.allowed.test", "git.test", "proxy.test"]
#: Whose TLS ends in the gateway.
ENDS = "ends.allowed.test"
SECRET = plan.PROXY_AUTHORIZATION.split()[1].encode()


@contextlib.contextmanager
def daemon_behind(world, directory, address, uplink):
    """A daemon whose only way out is the proxy at this address."""
    authorization = directory / "authorization"
    authorization.write_text(plan.PROXY_AUTHORIZATION + "\n")
    authorization.chmod(0o400)
    bundle, key = site_bundle(directory, change=lambda data: data["hosts"]["allowed"].extend(ALLOWED))
    egress = f'enabled = true\nuplink = "{uplink}"\nresolvers = ["{plan.RESOLVER}"]\n'
    egress += f'upstream_ca = "{world.ca_file}"\n[[egress.terminate]]\nname = "{ENDS}"\n'
    egress += f'[egress.proxy]\naddress = "{address}"\nauthorization_file = "{authorization}"\n'
    with running(egress=egress, bundle=bundle, key=key) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def daemon(world, tmp_path_factory):
    with daemon_behind(world, tmp_path_factory.mktemp("site"), f"proxy.test:{plan.PROXY}", "10.203.216.0/30") as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def place(daemon):
    async with Place.open(daemon) as opened:
        yield opened


def asked_of_the_proxy(events):
    return [event.data.decode() for event in events if event.kind is Kind.REQUEST and event.port == plan.PROXY]


async def test_both_schemes_pass_and_the_proxy_is_told_names_and_who_asks(daemon, place, world):
    before = len(world.log)
    # The proxy asks whoever wants this host for credentials.
    done = await place.run("curl -sSk https://known.allowed.test/hello; curl -sS http://known.allowed.test/hello")
    assert done.stdout == b"hello from the world\n" * 2, done.stderr
    asked = asked_of_the_proxy(world.log[before:])
    assert asked == ["CONNECT known.allowed.test:443 HTTP/1.1", "GET http://known.allowed.test/hello HTTP/1.1"]
    for layer in ("tls", "http"):
        ended = await recorded(daemon, sandbox_id=place.sandbox, layer=layer, state=("ended", "cut"))
        assert ended["received"] > 0


async def test_tls_that_ends_in_the_gateway_passes_and_the_server_is_verified_through_it(place, world):
    before = len(world.log)
    done = await place.run(f"curl -sS https://{ENDS}/hello")  # by our own authority
    assert done.stdout == b"hello from the world\n", done.stderr
    assert asked_of_the_proxy(world.log[before:]) == [f"CONNECT {ENDS}:443 HTTP/1.1"]
    told = world.log[before:]
    assert [event.name for event in told if event.kind is Kind.REQUEST and event.port == plan.TLS] == [ENDS]
    assert not any(SECRET in event.data for event in told if event.port == plan.TLS)


async def test_git_clones_through_it(place):
    done = await place.run("git clone -q http://git.test/project.git project && cat project/README")
    assert done.stdout == b"a repository of git.test\n", done.stderr


async def test_a_guest_hears_nothing_that_the_proxy_says_in_its_own_name(place):
    heard = await place.run("curl -sSi http://allowed.test/hello")
    assert heard.stdout.startswith(b"HTTP/1.1 200 OK")
    refused = await place.run("curl -sSi http://unwanted.allowed.test/; curl -sSkiv https://unwanted.allowed.test/")
    assert refused.stdout.startswith(b"HTTP/1.1 502 Bad Gateway")
    assert b"the site's proxy does not answer" in refused.stdout
    assert refused.outcome.exit_code != 0
    said = heard.stdout + heard.stderr + refused.stdout + refused.stderr
    assert MARK.encode() not in said
    assert b"via:" not in said.lower()


async def test_what_the_proxy_refuses_is_on_record_in_both_layers(daemon, place):
    await place.run("curl -s http://unwanted.allowed.test/; curl -sk https://unwanted.allowed.test/")
    for layer, port in (("http", 80), ("tls", 443)):
        told = await recorded(
            daemon, sandbox_id=place.sandbox, layer=layer, state="refused", rules=["egress.proxy.unavailable"]
        )
        assert (told["name"], told["port"], told["principal"]) == ("unwanted.allowed.test", port, "agent")
        assert "the site's proxy" in told["reason"]


@pytest.mark.parametrize("name", ["denied.test", "x.denied.test"])
async def test_NW_02_a_name_that_policy_refuses_never_reaches_the_proxy(place, world, name):
    before = len(world.log)
    await place.write("go.py", FRONTED.format(name=name))
    done = await place.run("curl -sS http://allowed.test/hello; python3 go.py")
    assert done.stdout == b"hello from the world\nHTTP/1.1 403 Forbidden\nclosed\n", done
    assert asked_of_the_proxy(world.log[before:]) == ["GET http://allowed.test/hello HTTP/1.1"]


#: Another name than the granted one in Host and in SNI, at the address that the granted one has.
FRONTED = """
import socket, ssl
peer = socket.create_connection(("allowed.test", 80), timeout=10)
peer.sendall(b"GET /hello HTTP/1.1\\r\\nHost: {name}\\r\\n\\r\\n")
print(peer.recv(4096).splitlines()[0].decode())
try:
    peer = socket.create_connection(("allowed.test", 443), timeout=10)
    ssl._create_unverified_context().wrap_socket(peer, server_hostname="{name}")
except OSError:
    print("closed")
"""


async def test_NW_01_the_proxy_itself_is_nobody_that_a_guest_reaches_allowed_or_not(place, world):
    literal = (
        "import socket\n"
        f"for address, port in (('{plan.PROXY_ADDRESS}', {plan.PROXY}), ('{plan.PROXY_ADDRESS}', 80)):\n"
        "    try: print(socket.create_connection((address, port), timeout=10))\n"
        "    except OSError as error: print(type(error).__name__)\n"
    )
    await place.write("literal.py", literal)
    await place.write("go.py", FRONTED.format(name="proxy.test"))
    before = len(world.log)
    done = await place.run(
        "curl -sS http://proxy.test/; curl -sS http://proxy.test:3128/; curl -sS http://allowed.test/hello; "
        "python3 literal.py; python3 go.py"
    )
    assert done.outcome.kind is OutcomeKind.BLOCKED  # port 3128 of a host that policy would allow on 80
    done = await place.run(
        "curl -sS http://proxy.test/; curl -sS http://allowed.test/hello; python3 literal.py; python3 go.py"
    )
    refused = b"ConnectionRefusedError\n" * 2
    assert done.stdout == b"hello from the world\n" + refused + b"HTTP/1.1 403 Forbidden\nclosed\n", done
    assert asked_of_the_proxy(world.log[before:]) == ["GET http://allowed.test/hello HTTP/1.1"]


async def test_nothing_leaves_but_to_the_proxy_and_nothing_is_asked_but_its_name(daemon, place, world):
    await place.run("curl -sk https://allowed.test/hello; curl -s http://allowed.test/hello")
    captured = await world.packets()
    assert captured.whole
    came = [one for one in captured.packets if one.link == "host" and not one.outgoing and one.tells]
    came = [one for one in came if not one.target.startswith("ff02:")]  # the host's own, to its neighbours
    assert {(one.target, one.port) for one in came if one.protocol == "tcp"} == {(plan.PROXY_ADDRESS, plan.PROXY)}
    assert {(one.target, one.port) for one in came if one.protocol != "tcp"} <= {(plan.RESOLVER, plan.DNS)}
    assert {event.name for event in world.log if event.kind is Kind.QUESTION} == {"proxy.test"}


async def test_the_authorization_is_in_no_log_and_for_nobody_but_envoy(daemon, place):
    assert SECRET not in daemon.log.read_bytes()
    assert all(SECRET not in path.read_bytes() for path in (daemon.state / "audit").iterdir())
    config = daemon.run / "envoy.json"
    assert SECRET in config.read_bytes()
    assert config.stat().st_mode & 0o777 == 0o640


async def test_a_dead_proxy_is_closed_to_all_and_on_record(world, tmp_path):
    dead = plan.PROXY + 1
    before = len(world.log)
    with daemon_behind(world, tmp_path, f"{plan.PROXY_ADDRESS}:{dead}", "10.203.220.0/30") as daemon:
        async with Place.open(daemon) as place:
            done = await place.run("curl -sS -w '%{http_code}' http://allowed.test/; curl -sSk https://allowed.test/")
            assert done.stdout.endswith(b"503")
            assert done.outcome.exit_code != 0
            for layer in ("http", "tls"):
                told = await recorded(daemon, sandbox_id=place.sandbox, layer=layer, rules=["egress.proxy.unavailable"])
                assert told["name"] == "allowed.test"
    assert [event for event in world.log[before:] if event.kind is not Kind.QUESTION] == []
