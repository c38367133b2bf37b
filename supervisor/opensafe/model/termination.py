"""Whose TLS ends in the gateway, and which credentials are put in there: as a site configures it (docs/egress.md)."""

import ipaddress
import re
from collections.abc import Iterable
from typing import Annotated, Final

import msgspec

#: How a guest writes a credential that it does not have: this, and the credential's name.
PLACEHOLDER: Final = "opensafe-credential-"
#: Lower-case A-labels, at least two, as they are judged and as they stand in a certificate (RFC 5890, RFC 6125).
_HOST: Final = r"^(?=.{3,253}\Z)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z"
#: RFC 9110, 5.1; in lower case.
_HEADER: Final = r"^[a-z0-9!#$%&'*+.^_`|~-]{1,64}\Z"
#: What frames or routes a message, and what Envoy reports of it.
_NOT_HEADERS: Final = frozenset(
    {
        *("host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect", "via"),
        *("keep-alive", "proxy-connection", "forwarded", "x-forwarded-for", "x-request-id", "referer", "user-agent"),
    }
)
#: A path from the root, or the name of one of systemd's credentials.
_FILE: Final = r"^(/[^\x00]{1,1023}|[A-Za-z0-9][A-Za-z0-9_.-]{0,63})\Z"

#: Where distributions keep the authorities that the system trusts: Debian and Alpine, Fedora, SUSE.
SYSTEM: Final = (
    "etc/ssl/certs/ca-certificates.crt",
    "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "etc/ssl/ca-bundle.pem",
)

Host = Annotated[str, msgspec.Meta(pattern=_HOST)]


class TerminateSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One name whose TLS ends in the gateway and is begun again from there."""

    name: Host


class CredentialSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A secret of one terminated host, in one header of requests to it. file: see _FILE; only root may read it."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?\Z")]
    host: Host
    header: Annotated[str, msgspec.Meta(pattern=_HEADER)] = "authorization"
    file: Annotated[str, msgspec.Meta(pattern=_FILE)]


class Credential(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same with its secret, which no representation of this shows."""

    name: str
    host: str
    header: str
    secret: bytes

    def __repr__(self) -> str:
        return f"Credential(name={self.name!r}, host={self.host!r}, header={self.header!r})"

    @property
    def placeholder(self) -> str:
        """What the guest writes for it."""
        return PLACEHOLDER + self.name


def variables(credentials: Iterable[CredentialSettings]) -> dict[str, str]:
    """In which variable of its environment a guest finds each placeholder."""
    return {f"OPENSAFE_CREDENTIAL_{one.name.upper().replace('-', '_')}": PLACEHOLDER + one.name for one in credentials}


def fault(terminate: tuple[TerminateSettings, ...], credentials: tuple[CredentialSettings, ...]) -> tuple[str, str]:
    """What is wrong with these, and with which value; two empty texts where nothing is."""
    names = [one.name for one in terminate]
    for name in names:
        if names.count(name) > 1:
            return "egress.terminate names a host twice", name
        if _is_address(name):
            return "egress.terminate names an address", name
    for one in credentials:
        if sum(other.name == one.name for other in credentials) > 1:
            return "egress.credential has a name twice", one.name
        if one.host not in names:
            return "egress.credential is for a host that egress.terminate does not name", one.host
        if one.header in _NOT_HEADERS:
            return "egress.credential can't be in this header", one.header
    return "", ""


def _is_address(name: str) -> bool:
    if re.fullmatch(r"(.*\.)?(\d+|0x[0-9a-f]*)", name):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
