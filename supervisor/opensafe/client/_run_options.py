"""Keywords that several methods share: of one run, of a session, of a sandbox.

They are TypedDicts, so that the synchronous and the asynchronous side can't differ, and a misspelt one is a TypeError.
"""

import asyncio
import math
import os
import pathlib
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict

import msgspec

from opensafe.errors import InvalidArgument, ReviewPending
from opensafe.model.usage import Limits

from ._client_calls import KEPT_OUTPUT
from ._retry import Retry
from ._types import Lease, RunLimits, SandboxSize

Input = str | bytes | Iterable[bytes] | AsyncIterable[bytes]
#: A function, which is called in a thread of its own, or a coroutine function.
OnReview = Callable[[ReviewPending], object]


class ReviewOptions(TypedDict, total=False):
    """What to do where a call is parked; without any of it ReviewPending is raised.

    wait_review: seconds to wait for a reviewer, `math.inf` until the review ends. on_review: is told of the parked
    call while it waits; without wait_review it waits until the review ends.
    """

    wait_review: float | None
    on_review: OnReview | None


class AttachOptions(ReviewOptions, total=False):
    """keep: bytes of each stream that the result keeps (1 MiB). check: raise CommandFailed where the exit status is
    not 0.
    """

    keep: int
    check: bool


class RunOptions(AttachOptions, total=False):
    """stdin: its standard input, of which else there is none. timeout: seconds (0.05 to 3600) it may run, output_limit:
    bytes it may write; beyond them it is killed, and neither is more than policy grants.

    call_id: to repeat and resume it by; else made up. tag: a name to find it by. on_disconnect: `keep` lets it go on
    without clients.
    """

    stdin: Input | None
    timeout: float | None
    output_limit: int
    call_id: str
    tag: str
    on_disconnect: Literal["kill", "keep"]


class CommandOptions(RunOptions, total=False):
    """cwd: its directory, absolute (/workspace). env: variables beside the sandbox's. user: of the image, by name."""

    cwd: str
    env: Mapping[str, str]
    user: str


class SessionOptions(ReviewOptions, total=False):
    """conversation_id: for traces. limits: ceilings of this session. principal: whose socket, or socket: which one; as
    `find_socket` finds it else. retry: how often what may be repeated is. Those of reviews hold for every call.
    """

    conversation_id: str
    limits: Limits
    principal: str | None
    socket: str | os.PathLike[str] | None
    retry: Retry


class SandboxOptions(TypedDict, total=False):
    """template: the image ("" is `base`). The others are as Client.create_sandbox has them."""

    template: str
    size: SandboxSize
    labels: Mapping[str, str]
    lease: Lease
    network: str
    require_warm: bool


class CreateOptions(SessionOptions, SandboxOptions, total=False):
    """Of a sandbox with a session of its own."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """RunOptions, read. wait_review: None where a parked call is not waited for."""

    call_id: str
    stdin: bytes | AsyncIterable[bytes] | None
    limits: RunLimits
    keep: int
    check: bool
    tag: str
    on_disconnect: Literal["kill", "keep"]
    wait_review: float | None
    on_review: OnReview | None
    retry: Retry


class Defaults(msgspec.Struct, frozen=True, kw_only=True):
    """What a session says of all of its calls."""

    wait_review: float | None = None
    on_review: OnReview | None = None
    retry: Retry = Retry()


def known(options: Mapping[str, Any], *kinds: type) -> None:
    """Raises TypeError for a keyword of none of these TypedDicts."""
    for name in options:
        if not any(name in kind.__annotations__ for kind in kinds):
            raise TypeError(f"there is no keyword {name!r}")


def part(options: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """Those of `options` that belong to this TypedDict."""
    return {name: value for name, value in options.items() if name in kind.__annotations__}


def defaults_of(options: SessionOptions) -> Defaults:
    """Those of a session."""
    return Defaults(
        wait_review=waiting(options, None),
        on_review=options.get("on_review"),
        retry=options.get("retry", Retry()),
    )


def waiting(options: ReviewOptions, default: float | None) -> float | None:
    """How long to wait for a reviewer."""
    if "wait_review" in options:
        return options["wait_review"]
    return math.inf if options.get("on_review") is not None else default


def plan_of(options: RunOptions, defaults: Defaults, call_id: str = "") -> Plan:
    """Raises InvalidArgument for a time that is none."""
    stdin = options.get("stdin")
    return Plan(
        call_id=call_id or options.get("call_id") or fresh_id("call"),
        stdin=None if stdin is None else _input(stdin),
        limits=RunLimits(wall_ms=_milliseconds(options.get("timeout")), output_bytes=options.get("output_limit", 0)),
        keep=options.get("keep", KEPT_OUTPUT),
        check=options.get("check", False),
        tag=options.get("tag", ""),
        on_disconnect=options.get("on_disconnect", "kill"),
        wait_review=waiting(options, defaults.wait_review),
        on_review=options.get("on_review", defaults.on_review),
        retry=defaults.retry,
    )


def fresh_id(prefix: str) -> str:
    """A call id of our own."""
    return f"{prefix}-{secrets.token_hex(8)}"


def command_arguments(options: CommandOptions) -> dict[str, Any]:
    """Those options that are arguments of the tools Bash and Exec."""
    given: dict[str, Any] = {}
    if cwd := options.get("cwd"):
        given["cwd"] = cwd
    if env := options.get("env"):
        given["env"] = dict(env)
    if user := options.get("user"):
        given["user"] = user
    return given


def socket_path(options: SessionOptions, find: Callable[[str | None], pathlib.Path]) -> pathlib.Path:
    """Which socket is meant."""
    socket = options.get("socket")
    return find(options.get("principal")) if socket is None else pathlib.Path(socket)


def _milliseconds(timeout: float | None) -> int:
    if timeout is None:
        return 0
    if not 0 < timeout <= 3600:
        raise InvalidArgument("a command's time is out of range", value=timeout, limit="0.05 to 3600 seconds")
    return max(1, round(timeout * 1000))


def _input(stdin: Input) -> bytes | AsyncIterable[bytes]:
    match stdin:
        case str():
            return stdin.encode("utf-8", "surrogateescape")
        case bytes() | bytearray() | memoryview():
            return bytes(stdin)
        case AsyncIterable():
            return stdin
    return _from_thread(stdin)


async def _from_thread(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """A plain iterator may block: it is not asked in the event loop."""
    iterator = iter(pieces)
    while (piece := await asyncio.to_thread(next, iterator, None)) is not None:
        yield piece
