"""A claim: one sandbox on some host, held by the driver until it is released."""

import asyncio
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypedDict, Unpack
from uuid import uuid4

from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from opensafe.client import CommandResult
from opensafe.errors import NotFound, OpenSafeError, SandboxError, SandboxLost

from ._host import Host
from ._sent import HostLost, Place, Request, SentCall, answered

#: Options that are arguments of the tools Bash and Exec.
_ARGUMENTS: Final = ("cwd", "env", "user")
#: Most bytes that `read` gives.
READ_MAX: Final = 64 << 20


class CallOptions(TypedDict, total=False):
    """As RunOptions of the sandbox API. What is not here can't travel to another host."""

    stdin: str | bytes
    timeout: float | None
    output_limit: int
    keep: int
    check: bool
    wait_review: float | None
    tag: str


class ShellOptions(CallOptions, total=False):
    """cwd: its directory, absolute (/workspace). env: variables beside the sandbox's. user: of the image, by name."""

    cwd: str
    env: Mapping[str, str]
    user: str


class _Pool(Protocol):
    async def give_back(self, claim: "Claim") -> None: ...


class Claim:
    """Made by RolloutPool.claim. Its calls raise what those of AsyncSandbox raise, and HostLost.

    calls: what was sent so far, with what is known of each.
    """

    def __init__(self, pool: _Pool, host: Host, at: int, claim_id: str, place: Place) -> None:
        self.claim_id = claim_id
        self._pool, self.host_state, self.actor, self.place = pool, host, at, place
        self._calls: dict[str, SentCall] = {}
        self._released = False
        self.broken: SandboxError | None = None

    @property
    def host(self) -> str:
        """The host's name."""
        return self.host_state.name

    @property
    def session_id(self) -> str:
        """The session, on that host."""
        return self.place.session_id

    @property
    def sandbox_id(self) -> str:
        """The sandbox, on that host."""
        return self.place.sandbox_id

    @property
    def calls(self) -> tuple[SentCall, ...]:
        """What was sent, in order."""
        return tuple(self._calls.values())

    @property
    def untouched(self) -> bool:
        """Whether it is certain that nothing was executed."""
        return all(call.state == "not executed" for call in self.calls)

    async def bash(self, command: str, **options: Unpack[ShellOptions]) -> CommandResult:
        """Run a shell text with bash."""
        return await self._send("Bash", {"command": command}, options)

    async def exec(self, argv: Sequence[str], **options: Unpack[ShellOptions]) -> CommandResult:
        """Run one program with exactly these arguments, without a shell."""
        return await self._send("Exec", {"argv": list(argv)}, options)

    async def tool(self, name: str, arguments: Mapping[str, Any], **options: Unpack[CallOptions]) -> CommandResult:
        """Run a tool by its name, with the arguments as a model gave them. Raises UnknownTool, InvalidArgument."""
        return await self._send(name, arguments, options)

    async def read(self, path: str) -> bytes:
        """A file's bytes, at most 64 MiB. Raises CommandFailed where it can't be read."""
        return (await self.tool("Read", {"path": path}, keep=READ_MAX, check=True)).stdout_bytes

    async def write(self, path: str, content: str | bytes) -> None:
        """Write a whole file, of at most 1 MiB. Raises CommandFailed where it can't be written."""
        given = {"content": content} if isinstance(content, str) else {"content_base64": b64encode(content).decode()}
        await self.tool("Write", {"path": path, **given}, check=True)

    async def release(self) -> None:
        """Delete the sandbox. Once is enough; of a host that is lost, there is nothing to delete."""
        if not self._released:
            self._released = True
            await self._pool.give_back(self)

    async def aclose(self) -> None:
        """The same as `release`."""
        await self.release()

    async def _send(self, tool: str, arguments: Mapping[str, Any], options: Mapping[str, Any]) -> CommandResult:
        for name in options:
            if name not in ShellOptions.__annotations__:
                raise TypeError(f"there is no keyword {name!r}")
        given = {name: dict(value) if name == "env" else value for name, value in options.items() if name in _ARGUMENTS}
        rest = {name: value for name, value in options.items() if name not in _ARGUMENTS}
        rest["on_disconnect"] = "kill" if rest.get("stdin") is not None else "keep"
        call = SentCall(call_id=f"call-{uuid4().hex}", tool=tool)
        request = Request(
            call_id=call.call_id, tool=tool, arguments={**arguments, **given}, options=rest, carrier=carrier()
        )
        self._calls[call.call_id] = call
        try:
            result: CommandResult = await self._ask(request)
        except OpenSafeError as error:
            self._calls[call.call_id] = answered(call, error)
            raise self._meant(error) from error.__cause__
        except asyncio.CancelledError:
            self.host_state.tell(self.actor, "cancel", self.place, call.call_id)
            raise
        self._calls[call.call_id] = answered(call, result)
        return result

    async def _ask(self, request: Request) -> Any:  # noqa: ANN401 - a CommandResult, by way of Ray
        return await self.host_state.ask(self.actor, "call", self.place, request, again="again")

    def _meant(self, error: OpenSafeError) -> OpenSafeError:
        """What is raised: the same, or what it means to the claim. What broke it is kept."""
        if isinstance(error, NotFound) and error.value in (self.session_id, self.sandbox_id):
            error = SandboxLost(f"the sandbox on {self.host} is gone: {error.message}", value=self.sandbox_id)
        if isinstance(error, SandboxError):
            self.broken = error
        if isinstance(error, HostLost):
            error.calls = self.calls
        return error


def carrier() -> dict[str, str]:
    """The trace context of the caller, as it travels."""
    made: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(made)
    return made
