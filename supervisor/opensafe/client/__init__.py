"""The client of the daemon: the only way in for the command line and for everything else that is not the daemon.

Sandbox and AsyncSandbox are for those who run commands (docs/guides/sdk.md):

    with Sandbox.create("my-agent") as box:
        print(box.bash("make test").stdout)

Client is the API as the daemon has it, one method an operation:

    async with Client.connect(find_socket()) as client:
        session = await client.create_session("my-agent")
        sandbox = await client.create_sandbox(session)
        result = await client.run_call(session, sandbox.sandbox_id, "call-1", "Bash", {"command": "make test"})

There a policy's *no* is a result, not an exception. What goes wrong on the way is one of the exceptions of
`opensafe.errors`, with the daemon's own words in it.
"""

from opensafe.errors import Denied, FileError, OpenSafeError, RequestError, ReviewPending, SandboxError, Unavailable
from opensafe.model.description import description_digest
from opensafe.model.sandbox import Terminal
from opensafe.model.usage import Limits, Usage

from ._async_files import AsyncSandboxFiles
from ._async_pty import AsyncPty
from ._async_sandbox import AsyncSandbox
from ._async_session import AsyncSession
from ._calls import Call
from ._client import Client
from ._collect import collect
from ._command_errors import (
    CallLost,
    CommandCancelled,
    CommandFailed,
    CommandNotStarted,
    CommandTimedOut,
    OutputLimitExceeded,
)
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
from ._opening import Opening
from ._result import CommandResult, Output
from ._retry import Retry
from ._run import AsyncRun
from ._run_options import AttachOptions, CommandOptions, CreateOptions, RunOptions, SandboxOptions, SessionOptions
from ._sync_files import SandboxFiles
from ._sync_run import Pty, Run
from ._sync_sandbox import Sandbox, Session
from ._trace import trace_context
from ._types import (
    AuditFinding,
    AuditPage,
    AuditRecord,
    AuditReport,
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
    RuleList,
    RunLimits,
    SandboxInfo,
    SandboxPage,
    SandboxSize,
    SelfTest,
    ShipState,
    Verdict,
)

__all__ = [
    "SOCKET_VARIABLE",
    "AsyncPty",
    "AsyncRun",
    "AsyncSandbox",
    "AsyncSandboxFiles",
    "AsyncSession",
    "AttachOptions",
    "AuditFinding",
    "AuditPage",
    "AuditRecord",
    "AuditReport",
    "Ban",
    "BanEffect",
    "BundleRefusal",
    "BundleSettled",
    "Call",
    "CallInfo",
    "CallLost",
    "CallPage",
    "CallResult",
    "Change",
    "Client",
    "CommandCancelled",
    "CommandFailed",
    "CommandNotStarted",
    "CommandOptions",
    "CommandResult",
    "CommandTimedOut",
    "CreateOptions",
    "CreatedSandbox",
    "DaemonStatus",
    "Decided",
    "Denied",
    "EgressConnection",
    "EgressConnections",
    "EgressHost",
    "EgressHosts",
    "EgressLayer",
    "EgressReach",
    "EgressStanding",
    "Ended",
    "Event",
    "FileError",
    "FileInfo",
    "Files",
    "Gap",
    "Lease",
    "Left",
    "LeftOut",
    "Limits",
    "OpenSafeError",
    "Opening",
    "Output",
    "OutputLimitExceeded",
    "Page",
    "Permit",
    "PoolState",
    "Pty",
    "RequestError",
    "Retry",
    "Review",
    "ReviewPending",
    "RuleList",
    "Run",
    "RunLimits",
    "RunOptions",
    "Sandbox",
    "SandboxError",
    "SandboxFiles",
    "SandboxInfo",
    "SandboxOptions",
    "SandboxPage",
    "SandboxSize",
    "SelfTest",
    "Session",
    "SessionOptions",
    "ShipState",
    "Started",
    "Stderr",
    "Stdout",
    "Terminal",
    "Truncated",
    "Unavailable",
    "Usage",
    "Verdict",
    "collect",
    "description_digest",
    "find_socket",
    "trace_context",
]
