"""Settings of the way out: which networks a site may name for its own servers, and which nobody may."""

import pytest

from opensafe.config import load
from opensafe.errors import ConfigError


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


@pytest.mark.parametrize(
    "line", ['links = "10.201.0.1/16"', 'uplink = "10.202.0.1/30"', 'vetted_also = ["10.0.0.1/8"]']
)
def test_an_address_is_no_network(tmp_path, line):
    with pytest.raises(ConfigError, match="has host bits set"):
        load(write(tmp_path, line))
