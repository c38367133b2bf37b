"""The client of the daemon: the only way in for the command line and for everything else that is not the daemon.

    async with Client.connect(find_socket()) as client:
        session = await client.create_session("my-agent")
        sandbox = await client.create_sandbox(session)
        result = await client.run_call(session, sandbox.sandbox_id, "call-1", "Bash", {"command": "make test"})

A policy's *no* is a result, not an exception. What goes wrong on the way is one of the exceptions of
`opensafe.errors`, with the daemon's own words in it.
"""

from opensafe.model.description import description_digest
from opensafe.model.sandbox import Terminal
from opensafe.model.usage import Limits, Usage

from ._calls import Call
from ._client import Client
from ._collect import collect
from ._discovery import SOCKET_VARIABLE, find_socket
from ._egress import (
    EgressConnection,
    EgressConnections,
    EgressHost,
    EgressHosts,
    EgressLayer,
    EgressReach,
    EgressStanding,
)
from ._events import CallResult, Decided, Ended, Event, Gap, Started, Stderr, Stdout, Truncated
from ._files import Change, FileInfo, Files, Left, LeftOut, Page
from ._trace import trace_context
from ._types import (
    AuditRecord,
    Ban,
    BanEffect,
    BundleRefusal,
    BundleSettled,
    CallInfo,
    CallPage,
    CreatedSandbox,
    DaemonStatus,
    Lease,
    Permit,
    PoolState,
    Review,
    RunLimits,
    Sandbox,
    SandboxPage,
    SandboxSize,
    SelfTest,
    ShipState,
    Verdict,
)

__all__ = [
    "SOCKET_VARIABLE",
    "AuditRecord",
    "Ban",
    "BanEffect",
    "BundleRefusal",
    "BundleSettled",
    "Call",
    "CallInfo",
    "CallPage",
    "CallResult",
    "Change",
    "Client",
    "CreatedSandbox",
    "DaemonStatus",
    "Decided",
    "EgressConnection",
    "EgressConnections",
    "EgressHost",
    "EgressHosts",
    "EgressLayer",
    "EgressReach",
    "EgressStanding",
    "Ended",
    "Event",
    "FileInfo",
    "Files",
    "Gap",
    "Lease",
    "Left",
    "LeftOut",
    "Limits",
    "Page",
    "Permit",
    "PoolState",
    "Review",
    "RunLimits",
    "Sandbox",
    "SandboxPage",
    "SandboxSize",
    "SelfTest",
    "ShipState",
    "Started",
    "Stderr",
    "Stdout",
    "Terminal",
    "Truncated",
    "Usage",
    "Verdict",
    "collect",
    "description_digest",
    "find_socket",
    "trace_context",
]
