"""Where the server behind the proxy runs: in a sandbox of its own, on this host, or elsewhere (proxy_remote.py).

Each is a transport of the SDK that ends with its block, and with it whatever was started: a sandbox is deleted, a
process killed with its group.
"""

import asyncio
import contextlib
import os
import pathlib
import signal
import sys
from collections.abc import AsyncIterator
from typing import Final

import anyio
import msgspec

from opensafe.client import Call, Client, Decided, Ended, Lease, Started, Stderr, Stdout
from opensafe.client.copying import send_file, send_tree
from opensafe.errors import Denied, InvalidArgument, ReviewPending, SandboxStartFailed
from opensafe.model.decision import Action

from .proxy_framing import Bounds, Ending, Streams, framed
from .proxy_remote import Remote

#: Seconds for a process on the host to end by itself once its input is closed.
GRACE_S: Final = 2.0
#: Bytes of a server's standard error that are passed on.
STDERR_BYTES: Final = 256 * 1024
#: What a process on the host gets of our environment.
HOST_ENVIRONMENT: Final = ("HOME", "LANG", "LOGNAME", "PATH", "TMPDIR", "USER")


class Sandboxed(msgspec.Struct, frozen=True, kw_only=True):
    """A command in a fresh sandbox. copies: files and directories of the host that lie in /workspace when it starts.

    wait: for a reviewer, where the start is parked.
    """

    client: Client
    session_id: str
    argv: tuple[str, ...]
    environment: dict[str, str] = {}
    template: str = ""
    network: str = "none"
    copies: tuple[pathlib.Path, ...] = ()
    wait: bool = False

    @contextlib.asynccontextmanager
    async def connect(self, bounds: Bounds, ending: Ending) -> AsyncIterator[Streams]:
        """Start it. Raises Denied, ReviewPending, SandboxError, and what making a sandbox raises."""
        lease = Lease(idle_timeout_s=60)  # a proxy that was killed leaves nothing for long
        made = await self.client.create_sandbox(self.session_id, self.template, lease=lease, network=self.network)
        try:
            files = self.client.files(self.session_id, made.sandbox_id)
            for copy in self.copies:
                if copy.is_dir():
                    await send_tree(files, str(copy), f"/workspace/{copy.name}", "")
                else:
                    await send_file(files, str(copy), "/workspace/", "")
            arguments = {"argv": list(self.argv)} | ({"env": self.environment} if self.environment else {})
            call = self.client.call(
                self.session_id,
                made.sandbox_id,
                f"server-{made.sandbox_id}",
                "Exec",
                arguments,
                interactive=True,
                wait_for_review=self.wait,
            )
            async with contextlib.aclosing(call):
                await _started(call)
                pipe = _CallPipe(call, ending)
                async with framed(pipe, bounds, ending) as streams:
                    yield streams
        finally:
            with anyio.CancelScope(shield=True):
                await self.client.delete_sandbox(made.sandbox_id, wait=False)


class OnHost(msgspec.Struct, frozen=True, kw_only=True):
    """A command on this host, as this user, with nothing around it."""

    argv: tuple[str, ...]
    environment: dict[str, str] = {}

    @contextlib.asynccontextmanager
    async def connect(self, bounds: Bounds, ending: Ending) -> AsyncIterator[Streams]:
        """Start it. Raises InvalidArgument where that fails."""
        inherited = {name: os.environ[name] for name in HOST_ENVIRONMENT if name in os.environ}
        try:
            process = await asyncio.create_subprocess_exec(
                *self.argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=inherited | self.environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise InvalidArgument(f"the server can't be started: {error}", value=self.argv[0]) from error
        pipe = _ProcessPipe(process, ending)
        errors = asyncio.create_task(pipe.pass_errors(), name="server-stderr")
        try:
            async with framed(pipe, bounds, ending) as streams:
                yield streams
        finally:
            with anyio.CancelScope(shield=True):
                await pipe.end(0 if ending.hostile else GRACE_S)
                errors.cancel()
                await asyncio.wait((errors,))


Place = Sandboxed | OnHost | Remote


async def _started(call: Call) -> None:
    """Wait until the program runs. Raises what kept it from that."""
    async for event in call:
        match event:
            case Started():
                return
            case Decided(verdict=verdict) if verdict.action is Action.BLOCK:
                hits = verdict.deciding()
                first = hits[0]
                raise Denied(
                    f"the server's start is blocked: {first.id}: {first.reason}",
                    value=first.value,
                    remedy=first.remedy,
                    rules=hits,
                )
            case Decided(verdict=verdict) if verdict.action is Action.REVIEW:
                tell(f"the server's start waits for a reviewer: opensafe review show {verdict.review_id}")
            case Ended(outcome=outcome) if outcome.kind == "review_pending":
                raise ReviewPending(
                    "the server's start waits for a reviewer",
                    remedy="Start the proxy with --wait, and have it approved.",
                )
            case Ended(outcome=outcome):
                raise SandboxStartFailed(f"the server did not start: {outcome.kind}: {outcome.detail}")
    raise SandboxStartFailed("the server did not start")


class _CallPipe:
    """Standard input and output of a program in a sandbox."""

    def __init__(self, call: Call, ending: Ending) -> None:
        self._call, self._ending = call, ending
        self._errors = _Errors()

    async def read(self) -> AsyncIterator[bytes]:
        async for event in self._call:
            match event:
                case Stdout(data=data):
                    yield data
                case Stderr(data=data):
                    self._errors.show(data)
                case Ended(outcome=outcome):
                    code = f" {outcome.exit_code}" if outcome.exit_code is not None else ""
                    cause = outcome.detail.partition(". ")[0]  # without a remedy, which is for another request
                    detail = f": {cause}" if cause else ""
                    self._ending.set(f"it ended: {outcome.kind}{code}{detail}")

    async def write(self, data: bytes) -> None:
        await self._call.send(data)


class _ProcessPipe:
    """The same of a process here."""

    def __init__(self, process: asyncio.subprocess.Process, ending: Ending) -> None:
        assert process.stdin is not None  # noqa: S101 - it was started with pipes
        assert process.stdout is not None  # noqa: S101 - the same
        self._process, self._ending = process, ending
        self._input, self._output = process.stdin, process.stdout

    async def read(self) -> AsyncIterator[bytes]:
        while data := await self._output.read(65536):
            yield data
        await self._wait(GRACE_S)
        status = self._process.returncode
        if status is not None:
            self._ending.set(f"it ended: {'exited' if status >= 0 else 'signalled'} {abs(status)}")

    async def write(self, data: bytes) -> None:
        self._input.write(data)
        await self._input.drain()

    async def pass_errors(self) -> None:
        """Its standard error, to ours."""
        assert self._process.stderr is not None  # noqa: S101 - it was started with pipes
        errors = _Errors()
        while data := await self._process.stderr.read(65536):
            errors.show(data)

    async def end(self, grace: float) -> None:
        """Close its input, wait so long, and kill its group whatever is left of it."""
        self._input.close()
        await self._wait(grace)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        # Nothing public closes pipes that were not read out, or that somebody outside the group still holds.
        self._process._transport.close()  # type: ignore[attr-defined] # noqa: SLF001 - as said above
        await self._process.wait()

    async def _wait(self, seconds: float) -> None:
        """For its end; that of its pipes belongs to it, and may never come."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._process.wait()


class _Errors:
    """A server's standard error: so much of it, and nothing in it that steers a terminal."""

    def __init__(self) -> None:
        self._left = STDERR_BYTES

    def show(self, data: bytes) -> None:
        if self._left <= 0:
            return
        self._left -= len(data)
        for line in data.decode(errors="replace").splitlines():
            tell(f"[server] {line}")
        if self._left <= 0:
            tell(f"[server] more than {STDERR_BYTES} bytes on standard error: the rest is not shown")


def tell(text: str) -> None:
    """One line on standard error, with nothing in it that steers a terminal."""
    shown = text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    sys.stderr.write(f"opensafe: {shown}\n")
    sys.stderr.flush()


def name_of(text: str) -> str:
    """A server's name where none is given: its program's or host's, without what no name may have."""
    name = pathlib.PurePath(text).name
    return "".join(c for c in name if c.isascii() and (c.isalnum() or c in "_.-")).strip("_.-")[:32]
