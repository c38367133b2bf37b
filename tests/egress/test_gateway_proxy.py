"""The gateway of a site with a proxy: whom Envoy's user can dial, and what nobody can have vetted."""

import contextlib
import secrets
import types

import pytest

from opensafe.config import EgressSettings
from opensafe.model.upstream_proxy import ProxySettings
from opensafe.warden.network.gateway import Gateway, remove

from .test_gateway import OWNER, as_owner, listening_on_the_uplink

pytestmark = pytest.mark.root

#: Of a /30 that no other test has.
UPLINK = "10.203.212.0/30"


@contextlib.asynccontextmanager
async def behind(directory, address):
    instance = secrets.token_hex(5)
    settings = EgressSettings(uplink=UPLINK, proxy=ProxySettings(address=address))
    made = await Gateway.open(directory / "gateway", settings, instance, OWNER)
    try:
        yield made, types.SimpleNamespace(path=directory, instance=instance)
    finally:
        await made.close()
    assert await remove(directory / "gateway", instance) == []


async def test_a_proxy_by_address_is_dialled_from_the_start_on_its_port_and_nothing_can_be_added(tmp_path):
    async with behind(tmp_path, "198.51.100.10:80") as (gateway, place):
        with listening_on_the_uplink(place) as (address, port):
            own = place.path / "gateway"
            assert as_owner(own, address, port) == "open"
            for other in (address, "8.8.8.8"):
                with pytest.raises(ValueError, match="not the site's proxy"):
                    await gateway.vet([other], 60)
                with pytest.raises(ValueError, match="not the site's proxy"):
                    await gateway.endpoints.dial(other, 5432)
            assert as_owner(own, address, 443) == "ConnectionRefusedError"
            assert as_owner(own, "8.8.8.8", port) == "ConnectionRefusedError"


async def test_the_other_ports_are_open_where_the_site_names_none(tmp_path):
    """The control: the rule is for the proxy's port, and for no fixed one."""
    async with behind(tmp_path, "198.51.100.10:3128") as (_, place):
        with listening_on_the_uplink(place) as (address, port):
            assert as_owner(place.path / "gateway", address, port) == "ConnectionRefusedError"


async def test_a_proxy_by_name_is_where_the_resolver_says_within_the_site_too_but_never_here(tmp_path):
    async with behind(tmp_path, "proxy.test:80") as (gateway, place):
        with listening_on_the_uplink(place) as (address, port):
            own = place.path / "gateway"
            assert as_owner(own, address, port) == "ConnectionRefusedError"
            await gateway.vet([address, "10.0.0.5"], 60)
            assert as_owner(own, address, port) == "open"
        for never in ("127.0.0.1", "169.254.169.254", "224.0.0.1", "10.203.212.1", "10.201.0.1"):
            with pytest.raises(ValueError, match="this host's or nobody's"):
                await gateway.vet([never], 60)
