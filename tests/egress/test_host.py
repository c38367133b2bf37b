"""`doctor` says what the host lacks for the way out, and nothing where there is none."""

import subprocess

import pytest

from opensafe.cli import way_out
from opensafe.config import EgressSettings
from opensafe.model.upstream_proxy import ProxySettings
from opensafe.warden.network import namespaces

ENABLED = EgressSettings(enabled=True)
DROPPING = "table ip filter { chain FORWARD { type filter hook forward priority 0; policy drop;"
ACCEPTING = 'iifname "os*" accept; oifname "os*" ct state established,related accept; }; }'
ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
wan1\t00000000\t010200C0\t0003\t0\t0\t200\t00000000\t0\t0\t0
wan0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
lan0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""


@pytest.fixture
async def host(tmp_path):
    """A network namespace of its own in the host's place."""
    path = tmp_path / "host"
    await namespaces.create(path)
    yield path
    namespaces.remove(path)


def found(checks):
    return {check.name: check for check in checks}


def proc_with(tmp_path, *, wan0):
    (tmp_path / "net").mkdir()
    (tmp_path / "net/route").write_text(ROUTES)
    for interface, value in (("wan0", wan0), ("wan1", 1 - wan0)):
        (tmp_path / "sys/net/ipv4/conf" / interface).mkdir(parents=True)
        (tmp_path / "sys/net/ipv4/conf" / interface / "forwarding").write_text(f"{value}\n")
    return tmp_path


def test_without_a_way_out_nothing_is_looked_at():
    assert list(way_out.look(EgressSettings())) == []


@pytest.mark.parametrize("wan0", [0, 1])
def test_the_interface_of_the_best_default_route_has_to_forward(tmp_path, wan0):
    check = found(way_out.look(ENABLED, proc_with(tmp_path, wan0=wan0)))["way out"]
    assert (check.ok, "wan0" in check.value) == (bool(wan0), True)
    assert check.remedy.startswith("" if wan0 else "sysctl -w net.ipv4.conf.wan0.forwarding=1")


def test_a_host_without_a_default_route_leads_nowhere(tmp_path):
    check = found(way_out.look(ENABLED, tmp_path))["way out"]
    assert (check.ok, check.value) == (False, "no default route")


@pytest.mark.parametrize(("address", "interface"), [("192.0.2.9", "lan0"), ("10.0.0.5", "wan0"), ("p.test", "wan0")])
def test_where_there_is_a_proxy_the_interface_towards_it_has_to_forward(tmp_path, address, interface):
    settings = EgressSettings(enabled=True, proxy=ProxySettings(address=f"{address}:3128"))
    checks = found(way_out.look(settings, proc_with(tmp_path, wan0=1)))
    assert interface in checks["way out"].value
    assert "LIMIT" in checks["way out proxy"].value


@pytest.mark.parametrize(
    ("rules", "ok"),
    [
        ("", True),
        ("table inet other { chain f { type filter hook forward priority 0; policy accept; }; }", True),
        ("table inet opensafe_0123456789 { chain f { type filter hook forward priority 0; policy drop; }; }", True),
        (f"{DROPPING} }}; }}", False),
        (f"{DROPPING} {ACCEPTING}", True),
        (f'{DROPPING} iifname "os*" drop; iifname "lan0" accept; }}; }}', False),
    ],
)
async def test_a_foreign_chain_that_drops_is_named_until_it_lets_the_gateway_through(host, rules, ok):
    def look():
        subprocess.run(["/usr/sbin/nft", "-f", "-"], input=rules.encode(), check=True)
        return found(way_out.look(ENABLED))["way out rules"]

    check = await namespaces.inside(host, look)
    assert check.ok == ok
    assert ok or "ip filter FORWARD" in check.value
