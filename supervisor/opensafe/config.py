"""Typed settings, read once from one TOML file. An unknown key, a wrong type or a bad value refuses to start.

Only the daemon reads this; clients need no more than the socket's path.
"""

import pathlib
from typing import Annotated, Final

import msgspec

from .errors import ConfigError

DEFAULT_PATH: Final = pathlib.Path("/etc/opensafe/opensafe.toml")
DEFAULT_PREFIX: Final = "/opt/opensafe"

PrincipalName = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]


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
    """Traces go to `otlp_endpoint` (gRPC, `http://host:4317`) when set, else to files under the state directory."""

    otlp_endpoint: str = ""
    file_bytes: Annotated[int, msgspec.Meta(ge=1 << 20, le=1 << 30)] = 32 << 20


class Service(_Section, frozen=True):
    """Life of the daemon. `user` owns the front and the egress helper."""

    user: str = "opensafe"
    drain_s: Annotated[int, msgspec.Meta(ge=0, le=600)] = 20
    keepalive_s: Annotated[int, msgspec.Meta(ge=1, le=600)] = 15
    reflection: bool = False


class Config(_Section, frozen=True):
    """The whole file. Sections and keys are as the fields are named."""

    paths: Paths = Paths()
    service: Service = Service()
    caps: Caps = Caps()
    policy: PolicySettings = PolicySettings()
    telemetry: Telemetry = Telemetry()
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
        return msgspec.toml.decode(text, type=Config)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: {error}", remedy="The settings are described in docs/configuration.md.") from error
