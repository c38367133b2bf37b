"""Hosts: one parser for everything that names a network peer.

A host that two programs could read differently is no host here: backslashes, percent signs, control
characters, empty labels, several `@` are rejected, and an IP address has one spelling however it was written.
Lint, gate and egress use this parser alone, so that none of them can be talked into another reading.
"""

import functools
import ipaddress
import re
from typing import Final

import idna

from opensafe.model.facts import ClassTables, HostFact

from ._identity import DerivedOnce

DEFAULT_PORTS: Final = {
    "ftp": 21, "ftps": 990, "git": 9418, "http": 80, "https": 443, "ldap": 389, "ldaps": 636, "rsync": 873,
    "sftp": 22, "smtp": 25, "ssh": 22, "telnet": 23, "ws": 80, "wss": 443,
}  # fmt: skip
METADATA_NAMES: Final = frozenset(
    {"instance-data", "instance-data.ec2.internal", "metadata", "metadata.azure.internal",
     "metadata.goog", "metadata.google.internal", "metadata.platformequinix.com", "metadata.tencentyun.com"}
)  # fmt: skip
METADATA_ADDRESSES: Final = frozenset(
    {"100.100.100.200", "168.63.129.16", "169.254.0.23", "169.254.169.123", "169.254.169.254", "169.254.170.2",
     "169.254.170.23", "192.0.0.192", "fd00:42::42", "fd00:ec2::254", "fd20:ce::254"}
)  # fmt: skip

_MAX_TEXT: Final = 4096
_MAX_NAME: Final = 253
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SUSPECT: Final = re.compile(r"[\x00-\x20\x7f-\xa0\\<>\"^`{|}\u200b-\u200f\u2028-\u202f\u2060-\u206f\u3000\ufeff]")
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_IPV4_PART: Final = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_TRANSLATED: Final = ipaddress.IPv6Network("::ffff:0:0:0/96")
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
#: All that is given out for the internet (IANA), and of that what is set aside for documentation (RFC 9637).
_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_DOCUMENTATION: Final = ipaddress.IPv6Network("3fff::/20")
_LOCAL_ONLY: Final = (ipaddress.IPv6Address("::"), ipaddress.IPv6Address("::1"))

_NO_TABLES: Final = ClassTables()
#: Of one connection the same name is asked about several times.
_REMEMBERED: Final = 1024


def parse_host(text: str, *, scheme: str | None = None, tables: ClassTables = _NO_TABLES) -> HostFact | None:
    """The peer that a URL, an authority or a bare host names; None where it can't be read as exactly one host.

    `scheme` is assumed where the text has none. The port is the written one, else the scheme's own (IANA), else
    None. Grammar: RFC 3986 authority, stricter; names: UTS 46 and RFC 5891; addresses: RFC 4291, inet_aton.
    """
    if not text or len(text) > _MAX_TEXT or _SUSPECT.search(text.partition("?")[0].partition("#")[0]):
        return None
    found = _SCHEME.match(text)
    if found:
        scheme, rest = found[1].lower(), text[found.end() :]
    else:
        rest = text.removeprefix("//")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, at, host = authority.rpartition("@")
    if "@" in user or "%" in host:
        return None
    host, port_text = _split_port(host)
    if port_text and (not _PORT.fullmatch(port_text) or not 0 < int(port_text) <= 65535):
        return None
    port = int(port_text) if port_text else DEFAULT_PORTS.get(scheme or "")
    name = canonical_name(host)
    if name is None:
        return None
    return HostFact(
        name=name,
        port=port,
        scheme=scheme,
        ip_literal=is_address(name),
        userinfo=bool(at),
        classes=classify_host(name, tables),
    )


@functools.lru_cache(_REMEMBERED)
def canonical_name(host: str) -> str | None:
    """One spelling of a host: lower-case A-labels without trailing dot, or the address it denotes; None if none.

    An IPv4 address in any inet_aton form becomes dotted decimal; an IPv6 address that carries an IPv4 one
    (mapped, NAT64, translated, compatible) becomes that IPv4 address, because that is what is reached.
    """
    if host.startswith("[") and host.endswith("]"):
        return _ipv6(host[1:-1])
    if ":" in host:
        return _ipv6(host)
    if not host.isascii():
        try:
            host = idna.encode(host, uts46=True).decode("ascii")
        except (idna.IDNAError, UnicodeError):
            return None
    host = host.lower().removesuffix(".")
    labels = host.split(".")
    if _IPV4_PART.fullmatch(labels[-1]):
        return _inet_aton(labels)
    if len(host) > _MAX_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        return None
    return host


def is_address(name: str) -> bool:
    """Whether a canonical name is an IP address."""
    return ":" in name or name.rpartition(".")[2].isdigit()


class HostClassifier:
    """The host names of one `ClassTables`: exact names and `*.` suffixes, looked up label by label."""

    __slots__ = ("_deeper", "_exact")

    def __init__(self, tables: ClassTables) -> None:
        self._exact: dict[str, list[str]] = {}
        self._deeper: dict[str, list[str]] = {}
        for name, hosts in tables.hosts.items():
            for host in hosts:
                wild = host.startswith("*.")
                key = canonical_name(host[2:] if wild else host)
                if key is not None:
                    (self._deeper if wild else self._exact).setdefault(key, []).append(name)

    def classify(self, host: str) -> dict[str, bool]:
        """The tables' classes that hold a canonical name."""
        found = dict.fromkeys(self._exact.get(host, ()), True)
        if self._deeper and not is_address(host):
            _, _, parent = host.partition(".")
            while parent:
                found.update(dict.fromkeys(self._deeper.get(parent, ()), True))
                _, _, parent = parent.partition(".")
        return found


host_classifier: Final[DerivedOnce[ClassTables, HostClassifier]] = DerivedOnce(HostClassifier)


def classify_host(name: str, tables: ClassTables) -> dict[str, bool]:
    """The classes of a canonical name: the tables' own, and private, loopback, link_local, metadata as computed."""
    found = host_classifier(tables).classify(name)
    if name in METADATA_NAMES or name in METADATA_ADDRESSES:
        found["metadata"] = True
    if not is_address(name):
        if name == "localhost" or name.endswith(".localhost"):
            found["loopback"] = True
        return found
    address = ipaddress.ip_address(name)
    if address.is_loopback or address.is_unspecified:  # connecting to the unspecified address reaches oneself
        found["loopback"] = True
    if address.is_link_local:
        found["link_local"] = True
    if not address.is_global or address.is_multicast or not _given_out(address):
        found["private"] = True
    return found


def _given_out(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """False where `is_global` says yes and no host of the internet has the address: fec0::/10 (RFC 3879) and such."""
    return address.version == 4 or (address in _UNICAST and address not in _DOCUMENTATION)


def _split_port(host: str) -> tuple[str, str]:
    if host.startswith("["):
        inner, bracket, after = host.partition("]")
        if after and not after.startswith(":"):
            return "", ""
        return inner + bracket, after[1:]
    if host.count(":") > 1:
        return host, ""
    name, _, port = host.partition(":")
    return name, port


def _inet_aton(parts: list[str]) -> str | None:
    if len(parts) > 4 or not all(_IPV4_PART.fullmatch(part) for part in parts):
        return None
    try:
        numbers = [_c_integer(part) for part in parts]
    except ValueError:
        return None
    *leading, last = numbers
    if any(number > 255 for number in leading) or last >= 256 ** (5 - len(parts)):
        return None
    value = last
    for place, number in enumerate(leading):
        value |= number << (24 - 8 * place)
    return str(ipaddress.IPv4Address(value))


def _c_integer(text: str) -> int:
    if len(text) > 24:
        raise ValueError(text)
    if text[:2] in ("0x", "0X"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if text.startswith("0") else int(text)


def _ipv6(text: str) -> str | None:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return None
    if address.scope_id is not None:
        return None
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    carries = any(address in network for network in (_NAT64, _TRANSLATED, _COMPATIBLE))
    if carries and address not in _LOCAL_ONLY:
        return str(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return str(address)
