"""The question put to policy. Field names are API: rules and `policies/schemas/input.json` use them.

It is encoded as JSON without change; counts stand in for histories, so that it stays small.
"""

from typing import Any

import msgspec

from .calls import Principal
from .facts import Command, HostFact, PathFact
from .limits import SandboxLimits


class CallInput(msgspec.Struct, frozen=True, kw_only=True):
    """The call: sealed arguments and the facts read from them. `id` is echoed by the verdict."""

    id: str
    tool: str
    arguments: dict[str, Any]
    digest: str
    opaque: bool = False
    opaque_reasons: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    reads: tuple[PathFact, ...] = ()
    writes: tuple[PathFact, ...] = ()
    deletes: tuple[PathFact, ...] = ()
    hosts: tuple[HostFact, ...] = ()
    env: dict[str, str] = {}
    size: int = 0


class SessionInput(msgspec.Struct, frozen=True, kw_only=True):
    """The session so far. `counts`: verdict or rule id -> number; `recent_tools`: the last eight, newest last."""

    id: str
    age_s: int = 0
    taints: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    recent_tools: tuple[str, ...] = ()


class BudgetInput(msgspec.Struct, frozen=True, kw_only=True):
    """Usage the daemon observed (calls, wall_s …) and the session's limits under the same keys."""

    usage: dict[str, int] = {}
    limits: dict[str, int] = {}


class SandboxInput(msgspec.Struct, frozen=True, kw_only=True):
    """The sandbox the call is for, or (kind `sandbox`) the one asked for."""

    id: str = ""
    template: str = "base"
    image_digest: str = ""
    workspace: str = "/workspace"
    limits: SandboxLimits | None = None


class ApprovalInput(msgspec.Struct, frozen=True, kw_only=True):
    """An approval of exactly this call: digest, bundle revision it was given on, who gave it."""

    id: str
    digest: str
    revision: str
    approver: str


class PolicyInput(msgspec.Struct, frozen=True, kw_only=True):
    """One question. `kind`: call or sandbox (egress and runtime come with their rooms)."""

    id: str
    kind: str
    call: CallInput
    principal: Principal
    session: SessionInput
    budget: BudgetInput = BudgetInput()
    sandbox: SandboxInput = SandboxInput()
    approval: ApprovalInput | None = None
