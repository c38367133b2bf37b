"""The sandbox API for synchronous programs: the asynchronous one, in a thread of its own that ends with it.

It may be used from any thread, and inside a running event loop, such as a notebook's.
"""

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from opensafe.errors import OpenSafeError
from opensafe.model.usage import Usage

from ._async_sandbox import AsyncSandbox
from ._async_session import AsyncSession
from ._opening import Opening
from ._portal import Portal
from ._result import CommandResult
from ._run_options import AttachOptions, CommandOptions, CreateOptions, RunOptions, SandboxOptions, SessionOptions
from ._sync_files import SandboxFiles
from ._sync_run import Pty, Run
from ._types import SandboxInfo

Opened = TypeVar("Opened", AsyncSession, AsyncSandbox)


class Session:
    """See AsyncSession. `create` and `connect` give one that is open: use it as a context manager, or close it."""

    def __init__(self, portal: Portal, session: AsyncSession) -> None:
        self._portal = portal
        self._session = session

    @classmethod
    def create(cls, agent: str = "agent", **options: Unpack[SessionOptions]) -> Self:
        """A new session, which ends with its sandboxes when it is closed. agent: the name that traces and bans carry.

        Raises Unavailable where there is no daemon, LimitExceeded, NotPermitted.
        """
        return cls(*_opened(AsyncSession.create(agent, **options)))

    @classmethod
    def connect(cls, session_id: str, *, owned: bool = False, **options: Unpack[SessionOptions]) -> Self:
        """A session that is there already, such as that of a program which was killed. owned: closing this ends it."""
        return cls(*_opened(AsyncSession.connect(session_id, owned=owned, **options)))

    @property
    def session_id(self) -> str:
        """Its id."""
        return self._session.session_id

    def sandbox(self, **options: Unpack[SandboxOptions]) -> "Sandbox":
        """A new sandbox, deleted when it is closed. Raises Denied, SandboxStartFailed, NoWarmSandbox, LimitExceeded."""
        return Sandbox(self._portal, self._portal.call(_awaited(self._session.sandbox(**options))), owns_portal=False)

    def connect_sandbox(self, sandbox_id: str, *, owned: bool = False) -> "Sandbox":
        """One that is there already; it need not be of this session. owned: closing it deletes it. Raises NotFound."""
        box = self._portal.call(_awaited(self._session.connect_sandbox(sandbox_id, owned=owned)))
        return Sandbox(self._portal, box, owns_portal=False)

    def report_usage(self, *, tokens: int = 0, cost_microusd: int = 0, output_tokens: int | None = None) -> Usage:
        """Declare what the daemon can't see, as Client.report_usage has it."""
        return self._portal.call(
            self._session.report_usage(tokens=tokens, cost_microusd=cost_microusd, output_tokens=output_tokens)
        )

    def close(self) -> None:
        """End the session where it was made here, the connection and the thread. Once is enough."""
        _close(self._portal, self._session.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _first(error):
            self.close()


class Sandbox:
    """See AsyncSandbox. `create` and `connect` give one that is open: use it as a context manager, or close it."""

    def __init__(self, portal: Portal, box: AsyncSandbox, *, owns_portal: bool = True) -> None:
        self._portal = portal
        self._box = box
        self._owns_portal = owns_portal
        self.files = SandboxFiles(portal, box.files)

    @classmethod
    def create(cls, agent: str = "agent", **options: Unpack[CreateOptions]) -> Self:
        """A sandbox with a session of its own; both end when it is closed.

        Raises Unavailable where there is no daemon, Denied, SandboxStartFailed, NoWarmSandbox, LimitExceeded.
        """
        return cls(*_opened(AsyncSandbox.create(agent, **options)))

    @classmethod
    def connect(
        cls, session_id: str, sandbox_id: str, *, owned: bool = False, **options: Unpack[SessionOptions]
    ) -> Self:
        """One that is there already, such as that of a program which was killed. owned: closing it ends both."""
        return cls(*_opened(AsyncSandbox.connect(session_id, sandbox_id, owned=owned, **options)))

    @property
    def session_id(self) -> str:
        """Its session's id."""
        return self._box.session.session_id

    @property
    def sandbox_id(self) -> str:
        """Its id."""
        return self._box.sandbox_id

    def bash(self, command: str, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a shell text with bash."""
        return self._portal.call(self._box.bash(command, **options))

    def exec(self, argv: Sequence[str], **options: Unpack[CommandOptions]) -> CommandResult:
        """Run one program with exactly these arguments, without a shell."""
        return self._portal.call(self._box.exec(argv, **options))

    def tool(self, name: str, arguments: Mapping[str, Any], **options: Unpack[RunOptions]) -> CommandResult:
        """Run a tool by its name, with the arguments as a model gave them. Raises UnknownTool, InvalidArgument."""
        return self._portal.call(self._box.tool(name, arguments, **options))

    def stream(
        self, command: str | Sequence[str], *, interactive: bool = False, **options: Unpack[CommandOptions]
    ) -> Run:
        """Run a shell text, or a program with its arguments, and iterate over its output.

        interactive: standard input stays open for `Run.send`.
        """
        return Run(self._portal, self._box.stream(command, interactive=interactive, **options))

    def tool_stream(
        self, name: str, arguments: Mapping[str, Any], *, interactive: bool = False, **options: Unpack[RunOptions]
    ) -> Run:
        """Run a tool by its name and iterate over its output."""
        return Run(self._portal, self._box.tool_stream(name, arguments, interactive=interactive, **options))

    def terminal(
        self,
        command: str | Sequence[str],
        *,
        columns: int = 80,
        rows: int = 24,
        **options: Unpack[CommandOptions],
    ) -> Pty:
        """Run a program on a terminal; use it as a context manager."""
        return Pty(self._portal, self._box.terminal(command, columns=columns, rows=rows, **options))

    def attach(self, call_id: str, *, offset: int = 0, **options: Unpack[AttachOptions]) -> Run:
        """A call of this session that somebody started: its output from byte `offset` on, then its result."""
        return Run(self._portal, self._box.attach(call_id, offset=offset, **options))

    def resume(self, call_id: str, **options: Unpack[AttachOptions]) -> CommandResult:
        """The result of a call that was parked, or lost sight of. While it waits for a reviewer this is ReviewPending,
        unless it is waited for.
        """
        return self._portal.call(self._box.resume(call_id, **options))

    def cancel(self, call_id: str) -> None:
        """Kill a call's whole process tree, and wait until it has ended. A parked one stays parked. Raises NotFound."""
        self._portal.call(self._box.cancel(call_id))

    def info(self) -> SandboxInfo:
        """What it is like now. Raises NotFound where it is deleted."""
        return self._portal.call(self._box.info())

    def pause(self) -> SandboxInfo:
        """Stop everything in it."""
        return self._portal.call(self._box.pause())

    def unpause(self) -> SandboxInfo:
        """Let it go on."""
        return self._portal.call(self._box.unpause())

    def renew(self, ttl_s: int = 0) -> SandboxInfo:
        """Let it live that many seconds from now; 0: as long as the site allows."""
        return self._portal.call(self._box.renew(ttl_s))

    def close(self) -> None:
        """Delete it where it was made here, and close a session of its own, with its thread. Once is enough."""
        if self._owns_portal:
            _close(self._portal, self._box.aclose())
        elif self._portal.open:  # else it went with its session
            self._portal.call(self._box.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _first(error):
            self.close()


@contextmanager
def _first(error: BaseException | None) -> Iterator[None]:
    """What went wrong before closing is what is to be told."""
    try:
        yield
    except OpenSafeError:
        if error is None:
            raise


def _opened(opening: Opening[Opened]) -> tuple[Portal, Opened]:
    portal = Portal()
    try:
        return portal, portal.call(_awaited(opening))
    except BaseException:
        portal.close()
        raise


async def _awaited(opening: Opening[Opened]) -> Opened:
    return await opening


def _close(portal: Portal, closing: Coroutine[Any, Any, None]) -> None:
    if not portal.open:
        closing.close()
        return
    try:
        portal.call(closing)
    finally:
        portal.close()
