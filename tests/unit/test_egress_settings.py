"""Settings of the way out: which networks a site may name for its own servers, and which nobody may."""

import pytest

from opensafe.config import load
from opensafe.errors import ConfigError
from opensafe.model.upstream_proxy import ProxySettings
from opensafe.warden.credentials import read_authorization


def write(tmp_path, line):
    path = tmp_path / "opensafe.toml"
    path.write_text(f"[egress]\n{line}\n")
    return path


@pytest.mark.parametrize("network", ["10.20.0.0/16", "198.51.100.0/24", "192.0.2.7/32"])
def test_a_sites_own_network_can_be_named(tmp_path, network):
    assert load(write(tmp_path, f'vetted_also = ["{network}"]')).egress.vetted_also == (network,)


@pytest.mark.parametrize(
    "network",
    ["127.0.0.0/8", "127.0.0.1/32", "169.254.169.254/32", "169.254.0.0/16", "224.0.0.0/4", "239.1.1.1/32", "0.0.0.0/0"],
)
def test_NW_12_loopback_link_local_and_multicast_never(tmp_path, network):
    with pytest.raises(ConfigError, match="never dialled") as refused:
        load(write(tmp_path, f'vetted_also = ["{network}"]'))
    assert refused.value.value == network


@pytest.mark.parametrize("key", ["links", "uplink"])
def test_the_network_of_synthetic_addresses_is_apart_from_the_others(tmp_path, key):
    other = {"links": "10.203.0.0/16", "uplink": "10.203.3.0/30"}[key]
    with pytest.raises(ConfigError, match=f"synthetic overlaps egress.{key}") as refused:
        load(write(tmp_path, f'{key} = "{other}"'))
    assert (refused.value.value, refused.value.limit) == ("10.203.0.0/22", other)
    settings = load(write(tmp_path, f'{key} = "{other}"\nsynthetic = "172.20.0.0/24"')).egress
    assert settings.synthetic == "172.20.0.0/24"


def test_sandboxes_have_other_addresses_than_the_gateways_link(tmp_path):
    with pytest.raises(ConfigError, match=r"egress\.links overlaps egress\.uplink") as refused:
        load(write(tmp_path, 'links = "10.202.0.0/16"'))
    assert (refused.value.value, refused.value.limit) == ("10.202.0.0/16", "10.202.0.0/30")
    assert load(write(tmp_path, 'links = "10.204.0.0/16"')).egress.links == "10.204.0.0/16"


@pytest.mark.parametrize(
    ("line", "key", "value", "limit"),
    [
        ('links = "10.0.0.0/30"', "egress.links", "10.0.0.0/30", "/8 to /28"),
        ('uplink = "10.0.0.0/24"', "egress.uplink", "10.0.0.0/24", "/30"),
        ('synthetic = "10.0.0.0/8"', "egress.synthetic", "10.0.0.0/8", "/16 to /28"),
        ('resolvers = ["192.0.2.53", "dns.example"]', "egress.resolvers[1]", "dns.example", "192.0.2.53:53"),
        ('vetted_also = ["corp"]', "egress.vetted_also[0]", "corp", "10.20.0.0/16"),
        ('[[egress.terminate]]\nname = "*.example.com"', "egress.terminate[0].name", "*.example.com", "no pattern"),
        ('[egress.proxy]\naddress = "proxy"', "egress.proxy.address", "proxy", "a port"),
    ],
)
def test_what_is_not_well_formed_is_told_with_its_value_and_what_is_allowed(tmp_path, line, key, value, limit):
    with pytest.raises(ConfigError) as refused:
        load(write(tmp_path, line))
    assert f"{key} is not well-formed" in str(refused.value)
    assert "regex" not in str(refused.value)
    assert refused.value.value == value
    assert limit in refused.value.limit


@pytest.mark.parametrize("network", ["10.203.0.0/15", "10.203.0.0/29", "10.203.0.1/22", "x"])
def test_a_network_of_synthetic_addresses_has_a_size(tmp_path, network):
    with pytest.raises(ConfigError):
        load(write(tmp_path, f'synthetic = "{network}"'))


@pytest.mark.parametrize(
    "line", ['links = "10.201.0.1/16"', 'uplink = "10.202.0.1/30"', 'vetted_also = ["10.0.0.1/8"]']
)
def test_an_address_is_no_network(tmp_path, line):
    with pytest.raises(ConfigError, match="has host bits set"):
        load(write(tmp_path, line))


@pytest.mark.parametrize(
    ("address", "host", "port", "literal"),
    [
        ("proxy.corp.example:3128", "proxy.corp.example", 3128, False),
        ("proxy:8080", "proxy", 8080, False),
        ("10.0.0.5:65535", "10.0.0.5", 65535, True),
        ("198.51.100.7:80", "198.51.100.7", 80, True),
    ],
)
def test_a_proxy_is_a_name_or_an_address_and_a_port(tmp_path, address, host, port, literal):
    proxy = load(write(tmp_path, f'[egress.proxy]\naddress = "{address}"')).egress.proxy
    assert (proxy.host, proxy.port, proxy.literal) == (host, port, literal)


@pytest.mark.parametrize(
    "address",
    [
        *("", ":3128", "proxy", "proxy:", "proxy:0", "proxy:65536", "proxy:03128", "proxy:3128 ", "http://proxy:3128"),
        *("user@proxy:3128", "a:b:3128", "[::1]:3128", "-x:3128", "proxy.:3128", "1.2.3:3128", "0x7f000001:3128"),
        *("256.1.1.1:3128", "127.0.0.1:3128", "169.254.169.254:80", "224.0.0.1:80", "0.0.0.0:80", "Proxy.test:3128"),
        *("10.201.0.9:3128", "10.202.0.1:3128", "10.203.0.1:3128", "a." * 127 + "b:3128", "x" * 64 + ":3128"),
    ],
)
def test_NW_12_a_proxy_is_no_address_of_this_host_and_nothing_else(tmp_path, address):
    with pytest.raises(ConfigError, match=r"egress\.proxy"):
        load(write(tmp_path, f'[egress.proxy]\naddress = "{address}"'))


def test_what_a_proxy_knows_a_site_by_is_in_a_file_of_roots_alone(tmp_path):
    path = tmp_path / "authorization"
    path.write_text("Basic dXNlcjpwYXNz\n")
    proxy = ProxySettings(address="proxy:3128", authorization_file=str(path))
    path.chmod(0o600)
    assert read_authorization(proxy) == "Basic dXNlcjpwYXNz"
    assert read_authorization(ProxySettings(address="proxy:3128")) == ""
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="not in a file of root's alone"):
        read_authorization(proxy)
    path.chmod(0o600)
    for text in ("", "Basic", "Basic x\r\nHost: evil", "Basic dXNlcjpwYXNz\nX: y\n", "Basic é" + "x" * 20):
        path.write_text(text)
        with pytest.raises(ConfigError, match="one line") as refused:
            read_authorization(proxy)
        assert "dXNl" not in f"{refused.value}{refused.value.value}"
