"""One command of a sample: from inspect_ai's words to OpenSafe's and back.

A command that ran or could not start is a result; one that ran too long or wrote too much is the exception that
inspect_ai knows for it. Nothing is run twice: a deadline is final, whatever `timeout_retry` allows.
"""

import asyncio
import errno
import os
import pathlib
import posixpath
import secrets
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
)

from opensafe.client import (
    AsyncSandbox,
    CommandCancelled,
    CommandNotStarted,
    CommandOptions,
    CommandResult,
    CommandTimedOut,
    OutputLimitExceeded,
)
from opensafe.errors import InvalidArgument, RequestError, UnknownUser

#: Statuses that commands don't use, the same as `opensafe run` ends with: policy said no; parked for a reviewer;
#: not to be run as it was asked for; ended because it did what the rules forbid a running program.
DENIED: Final = 193
PARKED: Final = 194
NOT_TAKEN: Final = 197
VIOLATION: Final = 199
#: What the system says where a file is not there, and where it may not be executed.
_ABSENT: Final = os.strerror(errno.ENOENT)
_CLOSED: Final = os.strerror(errno.EACCES)
#: What shells give where there is no such program, and where it can't be run.
_NO_PROGRAM: Final = 127
_NOT_STARTED: Final = 126
WORKSPACE: Final = "/workspace"
#: argv and environment of more bytes can't be sent; inspect_ai allows what execve(2) does.
_ARGV_MAX: Final = 256 * 1024
#: Linux takes no longer word, its NUL included (MAX_ARG_STRLEN).
_WORD_MAX: Final = 128 * 1024
_WALL_MAX_S: Final = 3600


class CommandTimeoutError(TimeoutError):
    """The command ran too long and was killed. truncated_output: what it wrote until then."""

    def __init__(self, message: str, truncated_output: str) -> None:
        super().__init__(message)
        self.truncated_output = truncated_output


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run. cwd: absolute. timeout: seconds; None is as long as policy grants."""

    argv: Sequence[str]
    stdin: str | bytes | None
    cwd: str
    env: Mapping[str, str]
    user: str | None
    timeout: float | None

    @property
    def text(self) -> str:
        """As a shell would have it, for people."""
        return shlex.join(self.argv)

    @property
    def is_long(self) -> bool:
        """Whether it is too long to be sent. Raises InvalidArgument for a word that no program can be given."""
        words = (*self.argv, *(f"{name}={value}" for name, value in self.env.items()))
        sizes = [len(word.encode("utf-8")) + 1 for word in words]
        if max(sizes, default=0) > _WORD_MAX:  # not sent: of megabytes gRPC does not always tell the refusal
            raise InvalidArgument(
                "an argument is too long",
                value=f"{max(sizes) - 1} bytes",
                limit=f"{_WORD_MAX - 1} bytes",
                remedy="Write it to a file and name the file.",
            )
        return sum(sizes) > _ARGV_MAX


def within(path: str | None) -> str:
    """A directory, absolute; a relative one lies in the workspace."""
    return posixpath.normpath(posixpath.join(WORKSPACE, path or ""))


def without_login(argv: Sequence[str]) -> Sequence[str]:
    """`bash --login -c TEXT …` as `bash -c TEXT …`, and any other command as it is."""
    plain = len(argv) > 3 and argv[0] in ("bash", "/bin/bash") and argv[1] in ("--login", "-l") and argv[2] == "-c"
    return (argv[0], *argv[2:]) if plain else argv


async def run(sandbox: AsyncSandbox, command: Command) -> ExecResult[str]:
    """Its result. Raises what inspect_ai names of `exec`, Denied, ReviewPending, SandboxError and Unavailable."""
    limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
    options = CommandOptions(cwd=command.cwd, env=command.env, stdin=command.stdin, keep=limit, output_limit=2 * limit)
    if command.user is not None:
        options["user"] = command.user
    if command.timeout is not None:
        options["timeout"] = min(max(command.timeout, 0.05), _WALL_MAX_S)
    try:
        argv = await _shortened(sandbox, command) if command.is_long else command.argv
        result = await sandbox.exec(argv, **options)
    except CommandTimedOut as error:
        raise CommandTimeoutError(str(error), f"{error.result.stdout}{error.result.stderr}") from error
    except OutputLimitExceeded as error:
        raise _exceeded(error.result) from error
    except CommandNotStarted as error:
        return _not_started(error)
    except CommandCancelled as error:
        raise SandboxUnavailableError(str(error)) from error
    except UnknownUser as error:
        raise SandboxUserUnsupportedError(str(error)) from error
    if result.dropped:
        raise _exceeded(result)
    code = result.exit_code if result.exit_code is not None and result.exit_code >= 0 else 128 - (result.exit_code or 0)
    return ExecResult(result.ok, code, result.stdout, result.stderr)


def refused(code: int, why: object, result: CommandResult | None = None) -> ExecResult[str]:
    """The result of a command that did not run, or not to its end: `why` stands last on stderr."""
    stdout, stderr = (result.stdout, result.stderr) if result is not None else ("", "")
    return ExecResult(False, code, stdout, f"{stderr}opensafe: {why}\n")


def not_taken(error: RequestError | UnicodeError) -> ExecResult[str]:
    """The result of a command that can't be asked for like this: an argument of 200 KB, a NUL, half a character."""
    return refused(NOT_TAKEN, error)


def _not_started(error: CommandNotStarted) -> ExecResult[str]:
    """The system's word stands last in the daemon's. Raises PermissionError for a file that can't be executed."""
    detail = error.result.outcome.detail
    place, _, why = detail.rpartition(": ")
    if why == _CLOSED and place.endswith(": exec"):
        raise PermissionError(errno.EACCES, f"the command was not started: {detail}") from error
    return refused(_NO_PROGRAM if why == _ABSENT and place.endswith(": exec") else _NOT_STARTED, error)


def _exceeded(result: CommandResult) -> OutputLimitExceededError:
    return OutputLimitExceededError(
        SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, f"{result.stdout}{result.stderr}"
    )


async def _shortened(sandbox: AsyncSandbox, command: Command) -> Sequence[str]:
    """The command as a script of the sandbox that removes itself. Policy sees a script that is run, and judges that.

    It is unpacked there, in a directory of its own: what a call writes has to be read before it runs, and is too long.
    """
    name = f"opensafe-{secrets.token_hex(8)}"
    script = f"/tmp/{name}/command.sh"  # noqa: S108 - in the sandbox
    text = f"rm -rf -- /tmp/{name}\nexec {command.text}\n"
    with tempfile.TemporaryDirectory() as place:
        held = pathlib.Path(place, "command.sh")
        await asyncio.to_thread(held.write_bytes, text.encode("utf-8", "surrogateescape"))
        await sandbox.files.upload(place, f"/tmp/{name}")  # noqa: S108 - in the sandbox
    return ("/bin/sh", script)
