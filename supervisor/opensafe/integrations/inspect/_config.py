"""What a task or a sample says of its sandbox. Frozen: inspect_ai tells tasks apart by it, and writes it into logs."""

import json
import pathlib
import tomllib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from opensafe.client import CreateOptions, Lease, Limits, SandboxSize
from opensafe.errors import InvalidArgument

#: Sandboxes that this door made carry it, with the task's name.
LABEL = "inspect/task"
_VALUE_MAX = 256
_CONFIG_MAX = 1 << 20


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SessionLimits(_Model):
    """What one sample may use up at most, beside the site's ceilings; None for those alone."""

    calls: int | None = Field(default=None, ge=0)
    wall_s: int | None = Field(default=None, ge=0)
    output_bytes: int | None = Field(default=None, ge=0)
    requests: int | None = Field(default=None, ge=0)
    egress_bytes: int | None = Field(default=None, ge=0)
    ingress_bytes: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    cost_microusd: int | None = Field(default=None, ge=0)


class OpenSafeSandboxConfig(_Model):
    """Whose rules a sample runs under, in what sandbox, and what is done where a call is parked.

    principal: whose socket below /run/opensafe, or socket: which one; without either as `opensafe` finds it. The rules
    are those of the principal's roles, so a sample with another principal has another policy.

    template: the image ("" is `base`). Sizes are bytes; 0 is the template's own. network: `none`, or `gateway` where
    the site has a way out. hosts: names that the sample needs; it fails at once where they can't be reached.
    agent: the name in traces and bans. limits: of the sample's session. idle_timeout_s: the sandbox is deleted after
    that long without a call, which is what ends those of an evaluation that was killed.

    login_shell: whether `bash --login -c`, which inspect_ai's tools run, stays one. Its start files are code that no
    rule sees, so that the shipped rules park each such call; without, the text alone is run and judged.

    reviewer, reviewer_socket: a principal who approves what is parked, at once and on record. Without one a parked call
    is refused, or with review_wait_s waits that long for a person.
    """

    principal: str | None = None
    socket: str | None = None
    template: str = ""
    memory_bytes: int = Field(default=0, ge=0)
    pids: int = Field(default=0, ge=0)
    cpu_millis: int = Field(default=0, ge=0)
    workspace_bytes: int = Field(default=0, ge=0)
    tmp_bytes: int = Field(default=0, ge=0)
    shm_bytes: int = Field(default=0, ge=0)
    network: str = ""
    hosts: tuple[str, ...] = ()
    agent: str = "inspect"
    limits: SessionLimits = SessionLimits()
    login_shell: bool = False
    idle_timeout_s: int = Field(default=3600, ge=0)
    reviewer: str | None = None
    reviewer_socket: str | None = None
    review_wait_s: float = Field(default=0, ge=0, le=86400)

    @property
    def approves(self) -> bool:
        """Whether somebody stands by to approve what is parked."""
        return self.reviewer is not None or self.reviewer_socket is not None

    def options(self, task: str) -> CreateOptions:
        """Of the sandbox and its session."""
        size = SandboxSize(
            memory_bytes=self.memory_bytes,
            pids=self.pids,
            cpu_millis=self.cpu_millis,
            workspace_bytes=self.workspace_bytes,
            tmp_bytes=self.tmp_bytes,
            shm_bytes=self.shm_bytes,
        )
        options = CreateOptions(
            conversation_id=task,
            limits=Limits(**self.limits.model_dump(exclude_none=True)),
            template=self.template,
            size=size,
            network=self.network,
            labels={LABEL: label(task)},
            lease=Lease(idle_timeout_s=self.idle_timeout_s),
        )
        if self.socket is not None:
            options["socket"] = self.socket
        else:
            options["principal"] = self.principal
        return options


def label(task: str) -> str:
    """A task's name as a label's value."""
    return "".join(character for character in task if character.isprintable())[:_VALUE_MAX]


def read(config: object) -> OpenSafeSandboxConfig:
    """What inspect_ai hands over: nothing, a model, or the path of a .toml or .json file.

    Raises InvalidArgument for what is none of these; ValidationError, a ValueError, names what is wrong in it.
    """
    match config:
        case None:
            return OpenSafeSandboxConfig()
        case OpenSafeSandboxConfig():
            return config
        case str():
            return OpenSafeSandboxConfig.model_validate(_parsed(pathlib.Path(config)))
    raise InvalidArgument(
        "this is no configuration of an OpenSafe sandbox",
        value=type(config).__name__,
        remedy="Use OpenSafeSandboxConfig, or name a .toml or .json file with its fields.",
    )


def _parsed(path: pathlib.Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > _CONFIG_MAX:
            raise InvalidArgument("the sandbox's configuration is too large", value=path, limit=f"{_CONFIG_MAX} bytes")
        text = path.read_text(encoding="utf-8")
        parsed = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise InvalidArgument(f"the sandbox's configuration can't be read: {error.strerror}", value=path) from error
    except ValueError as error:  # of both parsers, and of UTF-8
        raise InvalidArgument(f"the sandbox's configuration is malformed: {error}", value=path) from error
    if not isinstance(parsed, dict):
        raise InvalidArgument("the sandbox's configuration is no object", value=path)
    return parsed
