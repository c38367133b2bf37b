"""The question put to policy. Field names are API: rules and `policies/schemas/input.json` use them.

It is encoded as JSON without change; counts stand in for histories, so that it stays small.
"""

from typing import Any

import msgspec

from .calls import Principal
from .facts import Command, HostFact, PathFact
from .limits import SandboxLimits
from .sandbox import Asked, User
from .usage import HostUse


class CallInput(msgspec.Struct, frozen=True, kw_only=True):
    """The call: sealed arguments and the facts read from them.

    recalled: some facts were read off files that the session's calls before wrote, and don't show in the arguments.
    stdin: the client streams standard input into it. What it sends is neither judged nor recorded. asked: what it asks
    of the run; limits asked for only make those granted tighter. user: whom of the image's it asks to run or write
    as; None: nobody but the sandbox's own.
    server, description_digest, pinned_digest: of a tool that another server offers (MCP): its name, the digest of
    the description and schema it showed now, as the client says, and of those that were approved, as the tool manifest
    says or else the client. risk: a site tool's class of risk. untrusted: what it returns was written by others.
    """

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
    content_opaque: bool = False
    tree: bool = False
    recalled: bool = False
    stdin: bool = False
    asked: Asked = Asked()
    user: User | None = None
    server: str = ""
    description_digest: str = ""
    pinned_digest: str = ""
    risk: str = ""
    untrusted: bool = False


class SessionInput(msgspec.Struct, frozen=True, kw_only=True):
    """The session so far.

    counts: verdict or rule id -> number, over the session's life. window: the same within the last minutes, keys
    `calls_1m`, `blocks_10m`. recent_tools: the last eight, newest last. taints: what was observed of the session and
    its sandbox (`secret.read`, `encoded`, `untrusted.read`, `workspace.changed` …), oldest first; they never go away.
    banned: the agent or its whole principal is.
    """

    id: str
    agent: str = ""
    age_s: int = 0
    taints: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    window: dict[str, int] = {}
    recent_tools: tuple[str, ...] = ()
    banned: bool = False


class BudgetInput(msgspec.Struct, frozen=True, kw_only=True):
    """What was used, as the daemon observed it, and the limits under the same keys.

    Keys: calls, wall_s, output_bytes, requests, egress_bytes, ingress_bytes, tokens, cost_microusd. `usage` is the
    session's, `principal` all of the principal's over the last day; both have every key. `limits` are the session's
    own, with the keys that were set: the site's ceilings hold beside them. hosts: what the session used with each host
    that the call names.
    """

    usage: dict[str, int] = {}
    principal: dict[str, int] = {}
    limits: dict[str, int] = {}
    hosts: dict[str, HostUse] = {}


class SandboxInput(msgspec.Struct, frozen=True, kw_only=True):
    """The sandbox the call is for, or (kind `sandbox`) the one asked for. profile: its seccomp profile by default.

    network: the network profile that is asked for; "" for a call, and in records older than the field.
    """

    id: str = ""
    template: str = "base"
    profile: str = "default"
    image_digest: str = ""
    network: str = ""
    workspace: str = "/workspace"
    limits: SandboxLimits | None = None


class ApprovalInput(msgspec.Struct, frozen=True, kw_only=True):
    """An approval of exactly this call: digest, bundle revision it was given on, who gave it."""

    id: str
    digest: str
    revision: str
    approver: str


class EgressInput(msgspec.Struct, frozen=True, kw_only=True):
    """A connection or a DNS question of a sandbox, as Envoy or the responder saw it.

    layer: dns, tls, http or tcp. host: the name that decides, with its classes; sni, authority: what the client sent
    under these names ("" where the layer has none). path: of an HTTP request without query, escapes decoded; "" where
    servers could read it differently. terminated: TLS to the host ends in the gateway, so that requests in it are read.
    credential: `put` where the request gets one, `misplaced` where a placeholder stands that gets none. upgrade: the
    protocol that an HTTP request wants to change to, lower-case, "" where it wants none. address: where it would be
    dialled. granted: the call's or session's grant covers the name. label: of the name, length of the longest
    label and of the whole name, its entropy in milli-bits a character, and how many names of this zone the session has
    asked for. bytes_sent, bytes_received: of this connection so far. host_requests, host_sent, host_received: what the
    session has used with this host beside it.
    """

    layer: str
    host: HostFact
    sni: str = ""
    authority: str = ""
    method: str = ""
    path: str = ""
    upgrade: str = ""
    address: HostFact | None = None
    granted: bool = False
    terminated: bool = False
    credential: str = ""
    bytes_sent: int = 0
    bytes_received: int = 0
    host_requests: int = 0
    host_sent: int = 0
    host_received: int = 0
    label: dict[str, int] = {}


class RuntimeInput(msgspec.Struct, frozen=True, kw_only=True):
    """An event of the sentry's monitor. event: syscall or exec; announced: a running call's grant covers it."""

    event: str
    syscall: str = ""
    path: str = ""
    announced: bool = False


class PolicyInput(msgspec.Struct, frozen=True, kw_only=True):
    """One question. `kind`: call, sandbox, egress or runtime; the last two fill the field of their name."""

    id: str
    kind: str
    call: CallInput
    principal: Principal
    session: SessionInput
    budget: BudgetInput = BudgetInput()
    sandbox: SandboxInput = SandboxInput()
    approval: ApprovalInput | None = None
    egress: EgressInput | None = None
    runtime: RuntimeInput | None = None
