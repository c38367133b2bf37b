"""The HTTP proxy of a site that reaches the internet through one only: as it is configured (docs/egress.md)."""

import ipaddress
from typing import Annotated, Final

import msgspec

#: A name whose last label is no number, or an IPv4 address; and a port.
_LABEL: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_NAME: Final = rf"({_LABEL}\.)*[a-z]([a-z0-9-]{{0,61}}[a-z0-9])?"
_ADDRESS: Final = rf"^(?=[^:]{{1,253}}:)({_NAME}|(\d{{1,3}}\.){{3}}\d{{1,3}}):[1-9]\d{{0,4}}\Z"


class ProxySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """address: "proxy.corp.example:3128" or "10.0.0.5:3128". authorization_file: of root alone, with what
    Proxy-Authorization says (RFC 9110, 11.7.2), such as "Basic dXNlcjpwYXNz".
    """

    address: Annotated[str, msgspec.Meta(pattern=_ADDRESS)]
    authorization_file: Annotated[str, msgspec.Meta(pattern=r"^(/[^\x00]{1,1023}|)\Z")] = ""

    @property
    def host(self) -> str:
        """Its name or address."""
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> int:
        """Its port."""
        return int(self.address.rpartition(":")[2])

    @property
    def literal(self) -> bool:
        """Whether it is configured by its address."""
        return self.host.rpartition(".")[2].isdigit()


def fault(proxy: ProxySettings | None, forbidden: tuple[ipaddress.IPv4Network, ...]) -> str:
    """What is wrong with it, "" where nothing is. forbidden: where it can't be."""
    if proxy is None:
        return ""
    if proxy.port > 65535:
        return "egress.proxy.address has no port that there is"
    if proxy.literal:
        try:
            address = ipaddress.IPv4Address(proxy.host)
        except ValueError:
            return "egress.proxy.address is no address"
        if any(address in network for network in forbidden):
            return "egress.proxy.address is this host's or nobody's"
    return ""
