"""The sandbox of one sample, with the methods that inspect_ai asks for.

Its four kinds of *no* stay apart: policy's is a result or PermissionError and a Denial; a failed command is its result;
a user that the sandbox does not have or the caller may not be is SandboxUserUnsupportedError; a sandbox that is lost is
an error of the sample, and a daemon that can't be reached SandboxUnavailableError.
"""

import asyncio
import logging
import os
import pathlib
import shlex
import sys
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final, Literal, overload

import anyio
import anyio.lowlevel
from inspect_ai.util import (
    ExecResult,
    SandboxConnection,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    concurrency,
    sandboxenv,
)

from opensafe.client import AsyncSandbox, Client, find_socket
from opensafe.errors import (
    Conflict,
    Denied,
    InvalidArgument,
    NotFound,
    OpenSafeError,
    RequestError,
    ReviewPending,
    SandboxLost,
    Unavailable,
)

from . import _commands, _config, _denials, _files, _reviewing
from ._config import LABEL, OpenSafeSandboxConfig
from ._denials import Denial

_log = logging.getLogger(__name__)
#: Samples at once, unless --max-sandboxes says otherwise: below what a daemon takes as it comes (caps.sandboxes).
_SANDBOXES_MAX: Final = 48
#: Calls at once of all samples that leave throttling to us, below caps.running_calls.
_CALLS: Final = 128
#: Seconds that making or removing a sandbox may take, which nothing breaks off.
_LIFE_S: Final = 120
_USER_RULE: Final = "caller.user.role"


@sandboxenv(name="opensafe")
class OpenSafeSandboxEnvironment(SandboxEnvironment):
    """See the module. `denials` are what policy refused in it."""

    def __init__(self, sandbox: AsyncSandbox, config: OpenSafeSandboxConfig) -> None:
        super().__init__()
        self.sandbox = sandbox
        self._config = config
        self._denials: list[Denial] = []
        self._closed = False

    @property
    def denials(self) -> tuple[Denial, ...]:
        """What policy refused here, the first 1000 in order."""
        return tuple(self._denials)

    # What a sample asks for

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,  # noqa: A002 - inspect_ai's name
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,  # noqa: ARG002 - a deadline is final: nothing is run twice
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a program; see SandboxEnvironment.exec. What policy refuses ends with DENIED, PARKED or VIOLATION."""
        command = _commands.Command(
            argv=cmd if self._config.login_shell else _commands.without_login(cmd),
            stdin=input,
            cwd=_commands.within(cwd),
            env=env or {},
            user=user,
            timeout=timeout,
        )
        async with _throttled(concurrency):
            try:
                return await _commands.run(self.sandbox, command)
            except Denied as error:
                if any(hit.id == _USER_RULE for hit in error.rules):
                    raise SandboxUserUnsupportedError(str(error)) from error
                violated = error.outcome == "violation"
                code = _commands.VIOLATION if violated else _commands.DENIED
                return _commands.refused(code, self._note(error, "exec", command.text))
            except ReviewPending as error:
                return _commands.refused(_commands.PARKED, self._note(error, "exec", command.text))
            except (NotFound, Conflict) as error:
                raise SandboxLost(str(error)) from error
            except (RequestError, UnicodeError) as error:
                return _commands.not_taken(error)
            except Unavailable as error:
                raise SandboxUnavailableError(str(error)) from error

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Make or replace a file's content; see SandboxEnvironment.write_file."""
        try:
            with _files.errors(file):
                await _files.write(self.sandbox.files, file, contents)
        except (Denied, ReviewPending) as error:
            raise _files.refused(self._note(error, "write_file", file), file) from error

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """A file's content; see SandboxEnvironment.read_file."""
        try:
            with _files.errors(file):
                content = await _files.read(self.sandbox.files, file)
        except (Denied, ReviewPending) as error:
            raise _files.refused(self._note(error, "read_file", file), file) from error
        return content.decode("utf-8") if text else content

    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        """How a person gets a shell in it. Raises ConnectionError where it does not run."""
        try:
            info = await self.sandbox.info()
        except OpenSafeError as error:
            raise ConnectionError(str(error)) from error
        if info.state != "running":
            raise ConnectionError(f"the sandbox {info.sandbox_id} is {info.state}: {info.cause}")
        words = ["opensafe", "run", "--sandbox", info.sandbox_id, "--tty"]
        if self._config.socket is not None:
            words = ["env", f"OPENSAFE_SOCKET={self._config.socket}", *words]
        elif self._config.principal is not None:
            words += ["--principal", self._config.principal]
        words += ["--user", user] if user is not None else []
        return SandboxConnection(type="opensafe", command=shlex.join([*words, "bash"]), container=info.sandbox_id)

    def _note(self, error: Denied | ReviewPending, action: str, subject: str) -> Denial:
        denial = _denials.of(error, action, subject, self.sandbox.sandbox_id)
        _denials.keep(self._denials, denial)
        return denial

    # Its life

    @classmethod
    async def sample_init(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        metadata: dict[str, str],  # noqa: ARG003 - a sample has its own config
    ) -> dict[str, SandboxEnvironment]:
        """A session and a sandbox for the sample. Raises OpenSafeError where there is none to be had."""
        settings = _config.read(config)
        options = settings.options(task_name)
        _reviewing.stand_by(options, settings)
        # A create that is broken off may leave what it made, so it is not: what it made is closed instead.
        with anyio.fail_after(_LIFE_S, shield=True):
            sandbox = await AsyncSandbox.create(settings.agent, **options)
        made = cls(sandbox, settings)
        try:
            await anyio.lowlevel.checkpoint()
            await made._need_hosts()
        except BaseException:
            await made.aclose()
            raise
        return {"default": made}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,  # noqa: ARG003 - they know themselves
        config: SandboxEnvironmentConfigType | None,  # noqa: ARG003 - as above
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,  # noqa: ARG003 - it ends all the same
    ) -> None:
        """Delete the sandboxes and end their sessions, also where the sample was interrupted."""
        for environment in environments.values():
            await environment.as_type(cls).aclose()

    @classmethod
    async def task_init(cls, task_name: str, config: SandboxEnvironmentConfigType | None) -> None:  # noqa: ARG003 - for all
        """See that there is a daemon. Raises InvalidArgument for another's config or event loop, Unavailable."""
        settings = _config.read(config)
        try:
            asyncio.get_running_loop()
        except RuntimeError as error:
            raise InvalidArgument(
                "sandboxes of OpenSafe need asyncio", remedy="Leave INSPECT_ASYNC_BACKEND unset."
            ) from error
        async with Client.connect(_socket(settings)) as client:
            await client.status()

    @classmethod
    async def task_cleanup(
        cls,
        task_name: str,  # noqa: ARG003 - for all
        config: SandboxEnvironmentConfigType | None,  # noqa: ARG003 - for all
        cleanup: bool,
    ) -> None:
        """Each sample has cleaned up after itself; where that was not wanted, say how to."""
        if not cleanup:
            sys.stderr.write("Sandboxes are kept. Remove them with `inspect sandbox cleanup opensafe`.\n")

    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:  # noqa: A002 - inspect_ai's name
        """Delete what evaluations of this principal left (`inspect sandbox cleanup opensafe`), or one sandbox."""
        async with Client.connect(find_socket()) as client:
            living = await client.list_sandboxes()
            left = [one for one in living if LABEL in one.labels and id in (None, one.sandbox_id)]
            for one in left:
                try:
                    await client.delete_sandbox(one.sandbox_id)
                    await client.close_session(one.session_id)
                except NotFound:
                    pass  # it went by itself meanwhile
                sys.stdout.write(f"{one.sandbox_id} ({one.labels[LABEL]}) removed\n")
        if not left:
            sys.stdout.write("No sandbox of an evaluation is left.\n")

    @classmethod
    def default_concurrency(cls) -> int | None:
        """As many sandboxes as other providers have, within what a daemon takes."""
        return min(2 * (os.cpu_count() or 1), _SANDBOXES_MAX)

    def default_polling_interval(self) -> float:
        """Calls are cheap: a fifth of a second."""
        return 0.2

    @classmethod
    def config_files(cls) -> list[str]:
        """Found beside a task by themselves."""
        return ["opensafe.toml"]

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> OpenSafeSandboxConfig:
        """A config out of a log."""
        return OpenSafeSandboxConfig.model_validate(config)

    async def _need_hosts(self) -> None:
        """Raises Unavailable for a name that the sample needs and can't reach."""
        for host in self._config.hosts:
            reach = await self.sandbox.session.client.explain_egress(host, self.sandbox.sandbox_id)
            if not reach.reachable:
                why = "; ".join(one.reason for one in reach.obstacles) or "no layer lets it through"
                raise Unavailable(f"the sample needs {host}, which its sandbox can't reach: {why}", value=host)

    async def aclose(self) -> None:
        """Delete the sandbox, and wait until it is gone; end its session. Once is enough."""
        if self._closed:
            return
        self._closed = True
        with anyio.move_on_after(_LIFE_S, shield=True):
            try:
                try:
                    await self.sandbox.session.client.delete_sandbox(self.sandbox.sandbox_id)
                finally:
                    await self.sandbox.aclose()
            except NotFound:
                pass  # lost and removed, or its lease was faster
            except OpenSafeError as error:
                _log.warning("sandbox %s could not be removed, its lease ends it: %s", self.sandbox.sandbox_id, error)


def _socket(settings: OpenSafeSandboxConfig) -> pathlib.Path:
    return pathlib.Path(settings.socket) if settings.socket is not None else find_socket(settings.principal)


def _throttled(wanted: bool) -> AbstractAsyncContextManager[object]:
    return concurrency("opensafe", _CALLS) if wanted else nullcontext()
