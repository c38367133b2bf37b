"""The asynchronous sandbox API: a sandbox, what runs in it, its files."""

from __future__ import annotations  # AsyncSandbox stands in its own signatures

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Any, Unpack

from opensafe.errors import NotFound
from opensafe.model.sandbox import Terminal

from ._async_files import AsyncSandboxFiles
from ._async_pty import AsyncPty
from ._async_session import AsyncSession
from ._calls import Call
from ._opening import Opening
from ._result import CommandResult
from ._retry import repeating
from ._run import AsyncRun
from ._run_options import (
    AttachOptions,
    CommandOptions,
    CreateOptions,
    RunOptions,
    SandboxOptions,
    SessionOptions,
    command_arguments,
    known,
    part,
    plan_of,
)
from ._types import SandboxInfo


class AsyncSandbox:
    """Made by `create`, `connect`, or by a session. `files` are its files.

    What runs a command returns its result whatever its exit status (`check=True` raises CommandFailed), and raises what
    keeps it from ending by itself: CommandTimedOut, OutputLimitExceeded, CommandCancelled, CommandNotStarted. Policy's
    no is Denied, a parked call that is not waited for ReviewPending, the platform's failure SandboxError.
    """

    def __init__(self, session: AsyncSession, sandbox_id: str, resources: AsyncExitStack, *, owned: bool) -> None:
        """owned: it is deleted when it is closed. resources: what ends after it."""
        self.session = session
        self.sandbox_id = sandbox_id
        self.files = AsyncSandboxFiles(session, sandbox_id)
        self._resources = resources
        if owned:
            self._resources.push_async_callback(self._delete)

    @classmethod
    def create(cls, agent: str = "agent", **options: Unpack[CreateOptions]) -> Opening[AsyncSandbox]:
        """A sandbox with a session of its own; both end when it is closed.

        Raises Unavailable where there is no daemon, Denied, SandboxStartFailed, NoWarmSandbox, LimitExceeded.
        """
        known(options, CreateOptions)

        async def made() -> AsyncSandbox:
            session = await AsyncSession.create(agent, **_session_part(options))
            return await _alone(session, lambda it: made_in(session, _sandbox_part(options), it, owned=False))

        return Opening(made)

    @classmethod
    def connect(
        cls, session_id: str, sandbox_id: str, *, owned: bool = False, **options: Unpack[SessionOptions]
    ) -> Opening[AsyncSandbox]:
        """One that is there already, such as that of a program which was killed. owned: closing it ends both.

        Raises NotFound, Unavailable.
        """
        known(options, SessionOptions)

        async def found() -> AsyncSandbox:
            session = await AsyncSession.connect(session_id, owned=owned, **options)
            return await _alone(session, lambda it: found_in(session, sandbox_id, it, owned=False))

        return Opening(found)

    # Running

    async def bash(self, command: str, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a shell text with bash."""
        return await self._whole(self.stream(command, **options))

    async def exec(self, argv: Sequence[str], **options: Unpack[CommandOptions]) -> CommandResult:
        """Run one program with exactly these arguments, without a shell."""
        return await self._whole(self.stream(argv, **options))

    async def tool(self, name: str, arguments: Mapping[str, Any], **options: Unpack[RunOptions]) -> CommandResult:
        """Run a tool by its name, with the arguments as a model gave them. Raises UnknownTool, InvalidArgument."""
        return await self._whole(self.tool_stream(name, arguments, **options))

    def stream(
        self, command: str | Sequence[str], *, interactive: bool = False, **options: Unpack[CommandOptions]
    ) -> AsyncRun:
        """Run a shell text, or a program with its arguments, and iterate over its output.

        interactive: standard input stays open for `AsyncRun.send`.
        """
        known(options, CommandOptions)
        name, arguments = _called(command, options)
        return self.tool_stream(name, arguments, interactive=interactive, **_run_part(options))

    def tool_stream(
        self, name: str, arguments: Mapping[str, Any], *, interactive: bool = False, **options: Unpack[RunOptions]
    ) -> AsyncRun:
        """Run a tool by its name and iterate over its output."""
        return self._start(name, arguments, options, interactive=interactive, terminal=None)

    def terminal(
        self,
        command: str | Sequence[str],
        *,
        columns: int = 80,
        rows: int = 24,
        **options: Unpack[CommandOptions],
    ) -> AsyncPty:
        """Run a program on a terminal; use it as a context manager."""
        known(options, CommandOptions)
        name, arguments = _called(command, options)
        size = Terminal(columns=columns, rows=rows)
        return AsyncPty(self._start(name, arguments, _run_part(options), interactive=True, terminal=size))

    # Calls that were started before

    def attach(self, call_id: str, *, offset: int = 0, **options: Unpack[AttachOptions]) -> AsyncRun:
        """A call of this session that somebody started: its output from byte `offset` on, then its result."""
        known(options, AttachOptions)
        plan = plan_of(_attach_part(options), self.session.defaults, call_id)

        def begin() -> Call:
            return self.session.client.attach(
                self.session.session_id, call_id, offset=offset, wait_for_review=plan.wait_review is not None
            )

        return AsyncRun(begin, plan, repeats=True)

    async def resume(self, call_id: str, **options: Unpack[AttachOptions]) -> CommandResult:
        """The result of a call that was parked, or lost sight of. While it waits for a reviewer this is ReviewPending,
        unless it is waited for.
        """
        return await self._whole(self.attach(call_id, **options))

    async def cancel(self, call_id: str) -> None:
        """Kill a call's whole process tree, and wait until it has ended. A parked one stays parked. Raises NotFound."""
        async with aclosing(self.session.client.attach(self.session.session_id, call_id)) as call:
            asked = False
            async for _ in call:
                if not asked:
                    asked = True
                    await call.cancel()

    # The sandbox itself

    async def info(self) -> SandboxInfo:
        """What it is like now. Raises NotFound where it is deleted."""
        return await repeating(self.session.defaults.retry, lambda: self.session.client.get_sandbox(self.sandbox_id))

    async def pause(self) -> SandboxInfo:
        """Stop everything in it."""
        return await self.session.client.pause_sandbox(self.sandbox_id)

    async def unpause(self) -> SandboxInfo:
        """Let it go on."""
        return await self.session.client.resume_sandbox(self.sandbox_id)

    async def renew(self, ttl_s: int = 0) -> SandboxInfo:
        """Let it live that many seconds from now; 0: as long as the site allows."""
        return await self.session.client.renew_sandbox(self.sandbox_id, ttl_s)

    async def aclose(self) -> None:
        """Delete it where it was made here, and close a session of its own. Once is enough."""
        await self._resources.aclose()

    async def _delete(self) -> None:
        if self.session.closed:  # it went with it
            return
        with suppress(NotFound):  # its lease, or somebody else, was faster
            await repeating(
                self.session.defaults.retry, lambda: self.session.client.delete_sandbox(self.sandbox_id, wait=False)
            )

    def _start(
        self,
        name: str,
        arguments: Mapping[str, Any],
        options: RunOptions,
        *,
        interactive: bool,
        terminal: Terminal | None,
    ) -> AsyncRun:
        known(options, RunOptions)
        plan = plan_of(options, self.session.defaults)

        def begin() -> Call:
            return self.session.client.call(
                self.session.session_id,
                self.sandbox_id,
                plan.call_id,
                name,
                arguments,
                stdin=plan.stdin,
                interactive=interactive,
                wait_for_review=plan.wait_review is not None,
                tag=plan.tag,
                on_disconnect=plan.on_disconnect,
                terminal=terminal,
                limits=plan.limits,
            )

        return AsyncRun(begin, plan, repeats=not interactive)

    async def _whole(self, run: AsyncRun) -> CommandResult:
        async with aclosing(run):
            return await run.wait()


async def made_in(
    session: AsyncSession, options: SandboxOptions, resources: AsyncExitStack, *, owned: bool = True
) -> AsyncSandbox:
    """A new sandbox of the session, which takes over what is in `resources`. Not owned: it ends with the session."""
    created = await session.client.create_sandbox(session.session_id, **options)
    return AsyncSandbox(session, created.sandbox_id, resources.pop_all(), owned=owned)


async def found_in(session: AsyncSession, sandbox_id: str, resources: AsyncExitStack, *, owned: bool) -> AsyncSandbox:
    """One that is there, which takes over what is in `resources`. Raises NotFound."""
    await session.client.get_sandbox(sandbox_id)
    return AsyncSandbox(session, sandbox_id, resources.pop_all(), owned=owned)


async def _alone(session: AsyncSession, make: Callable[[AsyncExitStack], Awaitable[AsyncSandbox]]) -> AsyncSandbox:
    """A sandbox with which its session is closed, as it is where there comes to be none."""
    resources = AsyncExitStack()
    resources.push_async_callback(session.aclose)
    try:
        return await make(resources)
    except BaseException:
        await session.aclose()
        raise


def _called(command: str | Sequence[str], options: CommandOptions) -> tuple[str, dict[str, Any]]:
    given = command_arguments(options)
    if isinstance(command, str):
        return "Bash", {"command": command, **given}
    return "Exec", {"argv": list(command), **given}


def _run_part(options: CommandOptions) -> RunOptions:
    made: RunOptions = part(options, RunOptions)  # type: ignore[assignment] # the keys are RunOptions' own
    return made


def _attach_part(options: AttachOptions) -> RunOptions:
    made: RunOptions = part(options, AttachOptions)  # type: ignore[assignment] # as above
    return made


def _session_part(options: CreateOptions) -> SessionOptions:
    made: SessionOptions = part(options, SessionOptions)  # type: ignore[assignment] # as above
    return made


def _sandbox_part(options: CreateOptions) -> SandboxOptions:
    made: SandboxOptions = part(options, SandboxOptions)  # type: ignore[assignment] # as above
    return made
