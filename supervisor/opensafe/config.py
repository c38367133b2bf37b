"""Typed settings, read once from one TOML file. An unknown key, a wrong type or a bad value refuses to start.

Only the daemon reads this; clients need no more than the socket's path.
"""

import ipaddress
import itertools
import pathlib
import re
from typing import Annotated, Final, Literal

import msgspec

from .errors import ConfigError
from .model import destination, upstream_proxy
from .model.limits import SandboxLimits
from .model.sandbox import Name
from .model.termination import CredentialSettings, TerminateSettings, fault

DEFAULT_PATH: Final = pathlib.Path("/etc/opensafe/opensafe.toml")
DEFAULT_PREFIX: Final = "/opt/opensafe"

#: Without a capability no port below 1024, and never more than loopback: there is no authentication.
_METRICS: Final = (
    r"^((127\.0\.0\.1|\[::1\]):"
    r"(102[4-9]|10[3-9]\d|1[1-9]\d\d|[2-9]\d{3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])|unix|)\Z"
)

#: Whatever a name's address: this host's own, link-local (metadata services among them), multicast and beyond.
NEVER_VETTED: Final = tuple(
    ipaddress.IPv4Network(one) for one in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")
)
_Network = Annotated[str, msgspec.Meta(pattern=r"^(\d{1,3}\.){3}\d{1,3}/\d{1,2}\Z")]
_Resolver = Annotated[str, msgspec.Meta(pattern=r"^(\d{1,3}\.){3}\d{1,3}(:\d{1,5})?\Z")]
#: What patterns of `egress` mean, for who does not read them.
_WORDS: Final = {
    "egress.links": "an IPv4 network, /8 to /28, as 10.201.0.0/16",
    "egress.uplink": "an IPv4 network of /30, as 10.202.0.0/30",
    "egress.synthetic": "an IPv4 network, /16 to /28, as 10.203.0.0/22",
    "egress.resolvers": "an IPv4 address, with or without a port, as 192.0.2.53:53",
    "egress.vetted_also": "an IPv4 network, as 10.20.0.0/16",
    "egress.terminate.name": "one host's name in lower case, no pattern, as api.example.com",
    "egress.credential.name": "a to z, 0 to 9 and -, as github",
    "egress.credential.host": "one host's name in lower case, no pattern, as api.example.com",
    "egress.credential.header": "a header's name in lower case, as authorization",
    "egress.proxy.address": "a name in lower case or an IPv4 address, and a port, as proxy.corp.example:3128",
}
_REFUSED: Final = re.compile(r"Expected `str` matching regex .* - at `\$\.(.+)`")
PrincipalName = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_-]{0,31}\Z")]


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Paths(_Section, frozen=True):
    """Where things are. `state` survives a restart, `run` does not need to."""

    state: str = "/var/lib/opensafe"
    run: str = "/run/opensafe"
    runsc: str = f"{DEFAULT_PREFIX}/bin/runsc"
    native: str = f"{DEFAULT_PREFIX}/libexec"
    images: str = f"{DEFAULT_PREFIX}/images"
    bundle: str = f"{DEFAULT_PREFIX}/share/policy.bundle.tar.gz"


class PrincipalSettings(_Section, frozen=True):
    """One principal: the group whose members may use its socket, and its roles."""

    group: str = "root"
    roles: tuple[str, ...] = ("developer",)


class Caps(_Section, frozen=True):
    """Upper bounds on everything a client can make grow. Beyond one: LIMIT_EXCEEDED, naming it."""

    sessions_per_principal: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 64
    sandboxes: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 64
    sandbox_ttl_s: Annotated[int, msgspec.Meta(ge=1, le=31_536_000)] = 86_400
    running_calls: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 256
    parked_reviews: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 256
    arguments_bytes: Annotated[int, msgspec.Meta(ge=1024, le=64 << 20)] = 4 << 20
    arguments_bytes_per_s: Annotated[int, msgspec.Meta(ge=1024, le=1 << 30)] = 8 << 20
    retained_output_bytes: Annotated[int, msgspec.Meta(ge=0, le=1 << 30)] = 1 << 20
    retained_output_s: Annotated[int, msgspec.Meta(ge=0, le=86_400)] = 600
    review_ttl_s: Annotated[int, msgspec.Meta(ge=1, le=604_800)] = 3600
    permit_ttl_s: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 600
    approvals_needed: Annotated[int, msgspec.Meta(ge=1, le=2)] = 1
    approvals_needed_high: Annotated[int, msgspec.Meta(ge=1, le=2)] = 1
    refusals_per_s: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 20
    usage_reports_per_s: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 20


class PolicySettings(_Section, frozen=True):
    """Whose bundles are taken, and evaluation limits. The deadline includes nothing but the evaluation itself."""

    trusted_keys: tuple[str, ...] = (f"{DEFAULT_PREFIX}/share/policy.pub",)
    deadline_ms: Annotated[int, msgspec.Meta(ge=5, le=1000)] = 50
    memory_bytes: Annotated[int, msgspec.Meta(ge=4 << 20, le=1 << 30)] = 64 << 20


class Telemetry(_Section, frozen=True):
    """Traces go to `otlp_endpoint` (gRPC, `http://host:4317`) when set, else to files under the state directory.

    traces: without them nothing is sent or written; ids are given all the same. capture_content: with arguments and
    output, masked; without it nothing of a call's content is in them. metrics: where Prometheus scrapes: `unix`, for
    `metrics_group`, an address of loopback with its port, or nowhere.
    """

    traces: bool = True
    otlp_endpoint: str = ""
    capture_content: bool = False
    metrics: Annotated[str, msgspec.Meta(pattern=_METRICS)] = "unix"
    metrics_group: str = "root"
    file_bytes: Annotated[int, msgspec.Meta(ge=1 << 20, le=1 << 30)] = 32 << 20


class AuditSettings(_Section, frozen=True):
    """The audit log's segments, and how often it is signed: after so many seconds or records, whichever is first.

    ship: where each checkpoint is sent, see model/destination.py. ship_ca: certificates (PEM) that https trusts there
    instead of the system's.
    """

    segment_bytes: Annotated[int, msgspec.Meta(ge=1 << 20, le=1 << 32)] = 64 << 20
    checkpoint_s: Annotated[int, msgspec.Meta(ge=1, le=3600)] = 10
    checkpoint_records: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] = 10_000
    ship: Annotated[tuple[str, ...], msgspec.Meta(max_length=8)] = ()
    ship_ca: str = ""


class EgressSettings(_Section, frozen=True):
    """The way out of sandboxes (docs/egress.md); without `enabled` there is none. `user` owns Envoy.

    links: IPv4 network out of which each sandbox gets a /31. uplink: the /30 between host and gateway. synthetic: of
    addresses that stand for the names of listed endpoints, and that nobody else may have. resolvers: whom
    allowed names are asked of, an IPv4 address with or without a port; none: those of /etc/resolv.conf. vetted_also:
    networks whose addresses names may have beside global ones, for a site's own servers. grants: whose a granted name
    is, the call's alone or the session's until it ends; session_names: how many of them a session may keep.

    proxy: through which everything goes, see model/upstream_proxy.py. terminate, credential: see model/termination.py.
    upstream_ca: certificates (PEM) that terminated names are verified by instead of the system's.
    """

    enabled: bool = False
    user: str = "opensafe-egress"
    links: Annotated[str, msgspec.Meta(pattern=r"^(\d{1,3}\.){3}\d{1,3}/([89]|1\d|2[0-8])\Z")] = "10.201.0.0/16"
    uplink: Annotated[str, msgspec.Meta(pattern=r"^(\d{1,3}\.){3}\d{1,3}/30\Z")] = "10.202.0.0/30"
    synthetic: Annotated[str, msgspec.Meta(pattern=r"^(\d{1,3}\.){3}\d{1,3}/(1[6-9]|2[0-8])\Z")] = "10.203.0.0/22"
    resolvers: Annotated[tuple[_Resolver, ...], msgspec.Meta(max_length=8)] = ()
    vetted_also: Annotated[tuple[_Network, ...], msgspec.Meta(max_length=64)] = ()
    terminate: Annotated[tuple[TerminateSettings, ...], msgspec.Meta(max_length=64)] = ()
    upstream_ca: str = ""
    credential: Annotated[tuple[CredentialSettings, ...], msgspec.Meta(max_length=32)] = ()
    grants: Literal["call", "session"] = "call"
    session_names: Annotated[int, msgspec.Meta(ge=1, le=256)] = 128
    proxy: upstream_proxy.ProxySettings | None = None


class Service(_Section, frozen=True):
    """Life of the daemon. `user` owns the front and the egress helper."""

    user: str = "opensafe"
    drain_s: Annotated[int, msgspec.Meta(ge=0, le=600)] = 20
    keepalive_s: Annotated[int, msgspec.Meta(ge=1, le=600)] = 15
    reflection: bool = False


class PoolSettings(_Section, frozen=True):
    """Sandboxes that are kept ready for one principal. Only a create with exactly these limits gets one."""

    principal: PrincipalName = "default"
    template: Name = "base"
    ready: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    warm_up: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=64)] = ("/bin/true",)
    limits: SandboxLimits = SandboxLimits()


class Config(_Section, frozen=True):
    """The whole file. Sections and keys are as the fields are named."""

    paths: Paths = Paths()
    service: Service = Service()
    caps: Caps = Caps()
    policy: PolicySettings = PolicySettings()
    audit: AuditSettings = AuditSettings()
    egress: EgressSettings = EgressSettings()
    telemetry: Telemetry = Telemetry()
    pool: tuple[PoolSettings, ...] = ()
    principals: dict[PrincipalName, PrincipalSettings] = msgspec.field(
        default_factory=lambda: {
            "default": PrincipalSettings(),
            "operator": PrincipalSettings(roles=("reviewer",)),
        }
    )


def load(path: pathlib.Path) -> Config:
    """Read and check `path`. Raises ConfigError naming the file, the key and what is allowed."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}",
            remedy="Write it (deploy/opensafe.toml is an example) or name another with --config.",
        ) from error
    try:
        config = msgspec.toml.decode(text, type=Config)
    except msgspec.DecodeError as error:
        wrong, value, limit = _in_words(error, text)
        raise ConfigError(
            f"{path}: {wrong}", value=value, limit=limit, remedy="The settings are described in docs/configuration.md."
        ) from error
    for place in config.audit.ship:
        try:
            destination.parse(place)
        except ValueError as error:
            raise ConfigError(
                f"{path}: audit.ship: {error}", value=place, remedy="docs/audit.md has an example of each."
            ) from error
    _check_networks(path, config.egress)
    _check_proxy(path, config.egress)
    wrong, value = fault(config.egress.terminate, config.egress.credential)
    if wrong:
        raise ConfigError(f"{path}: {wrong}", value=value, remedy="docs/egress.md has an example.")
    for entry in config.pool:
        if entry.principal not in config.principals:
            raise ConfigError(
                f"{path}: pool for a principal that there is not",
                value=entry.principal,
                limit=", ".join(config.principals),
                remedy="Name one of [principals.NAME].",
            )
    kept = sum(entry.ready for entry in config.pool)
    if kept > config.caps.sandboxes:
        raise ConfigError(
            f"{path}: the pool is larger than what there can be",
            value=kept,
            limit=f"caps.sandboxes = {config.caps.sandboxes}",
            remedy="Keep fewer ready, or raise the cap: cells count against it.",
        )
    return config


def _in_words(error: msgspec.DecodeError, text: bytes) -> tuple[str, object, str]:
    """What is wrong, the value and what is allowed, for a text that a pattern refuses; else the error as it is."""
    found = _REFUSED.fullmatch(str(error))
    limit = _WORDS.get(re.sub(r"\[\d+\]", "", found[1])) if found else None
    if found is None or limit is None:
        return str(error), "", ""
    value = msgspec.toml.decode(text)
    for name, number in re.findall(r"(\w+)|\[(\d+)\]", found[1]):
        value = value[name] if name else value[int(number)]
    return f"{found[1]} is not well-formed", value, limit


def _check_proxy(path: pathlib.Path, settings: EgressSettings) -> None:
    own = tuple(ipaddress.IPv4Network(getattr(settings, key)) for key in ("links", "uplink", "synthetic"))
    if wrong := upstream_proxy.fault(settings.proxy, (*NEVER_VETTED, *own)):
        raise ConfigError(
            f"{path}: {wrong}",
            value=settings.proxy.address if settings.proxy else "",
            limit="a name or IPv4 address of another host, and a port",
            remedy='Write it as "proxy.corp.example:3128".',
        )


def _check_networks(path: pathlib.Path, settings: EgressSettings) -> None:
    """Raises ConfigError for what is no network, and for one that no name may lead to."""
    for key, texts in (
        ("links", (settings.links,)),
        ("uplink", (settings.uplink,)),
        ("synthetic", (settings.synthetic,)),
        ("vetted_also", settings.vetted_also),
    ):
        for text in texts:
            try:
                network = ipaddress.IPv4Network(text)
            except ValueError as error:
                raise ConfigError(
                    f"{path}: egress.{key}: {error}", value=text, remedy="Write the network's first address and prefix."
                ) from error
            if key == "vetted_also" and any(network.overlaps(never) for never in NEVER_VETTED):
                raise ConfigError(
                    f"{path}: egress.vetted_also names addresses that are never dialled",
                    value=text,
                    limit=", ".join(str(never) for never in NEVER_VETTED),
                    remedy="Leave out loopback, link-local and multicast networks.",
                )
    own = {key: ipaddress.IPv4Network(getattr(settings, key)) for key in ("synthetic", "links", "uplink")}
    for one, other in itertools.combinations(own, 2):
        if own[one].overlaps(own[other]):
            raise ConfigError(
                f"{path}: egress.{one} overlaps egress.{other}",
                value=str(own[one]),
                limit=str(own[other]),
                remedy="Name a network that nothing else on this host uses.",
            )
