"""Rows that count what a client makes: programs at once, sessions, sandboxes; and what outlives its deadline."""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

from opensafe.client import Client, RunLimits, SandboxSize, Started
from opensafe.client import Ended as EndedEvent
from opensafe.errors import OpenSafeError
from opensafe.model.outcome import OutcomeKind
from opensafe.model.sandbox import Terminal
from opensafe.proof.escape.ground import opened
from opensafe.proof.escape.probe import Run
from opensafe.proof.planting import plant

from .daemons import CALLS, FLOODER, SANDBOXES, SESSIONS, Daemon, Kind
from .ground import Ground

_BEYOND: Final = 4
_TINY: Final = SandboxSize(memory_bytes=64 << 20)
_TERMINAL: Final = Terminal(columns=80, rows=24)
#: What the runner above a program is called (native/guest/run.c).
_RUNNING: Final = "run:"
_DEADLINE_MS: Final = 2000
#: How long after its deadline a call may still be about to end.
_GRACE_S: Final = 8.0
_LOOK_S: Final = 0.05
_STUBBORN: Final = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
print("begun", flush=True)
time.sleep(60)
"""


async def programs(ground: Ground, kind: Kind) -> Run:
    """RS-12: programs on terminals, until no more are taken, and four more."""
    daemon = await ground.daemon(kind)
    async with daemon.sandbox() as (client, session, sandbox):
        started = 0

        async def start(number: int) -> str:
            nonlocal started
            why = await _start(client, session, sandbox, f"pty-{number}")
            started += not why
            return why

        refused = await _until_refused(start, CALLS)
        count = await _running(daemon, sandbox, started)
    return _counted("programs on terminals", count, CALLS, refused)


async def sessions(ground: Ground, kind: Kind) -> Run:
    """RS-20: sessions of one principal, as the audit log has them."""
    daemon = await ground.daemon(kind)
    made: list[str] = []
    async with daemon.client(FLOODER) as client, contextlib.AsyncExitStack() as held:

        async def make(_: int) -> str:
            made.append(await held.enter_async_context(opened(client, "flood")))
            return ""

        refused = await _until_refused(make, SESSIONS)
        recorded = {one["session_id"] for one in daemon.records("session") if one["state"] == "open"}
    return _counted("sessions", len(recorded & set(made)), SESSIONS, refused)


async def sandboxes(ground: Ground, kind: Kind) -> Run:
    """RS-20: sandboxes, as the host's groups have them."""
    daemon = await ground.daemon(kind)
    async with daemon.client() as client, opened(client, "flood") as session:

        async def make(_: int) -> str:
            await client.create_sandbox(session, size=_TINY)
            return ""

        refused = await _until_refused(make, SANDBOXES)
        count = daemon.sandboxes()
    return _counted("sandboxes", count, SANDBOXES, refused)


async def deadline(ground: Ground, kind: Kind) -> Run:
    """RS-15: a tree that takes no signal for an answer, one of it in a session of its own."""
    daemon = await ground.daemon(kind)
    async with daemon.sandbox() as (client, session, sandbox):
        await plant(client.files(session, sandbox), "/workspace/stubborn.py", _STUBBORN.encode())
        limits, ended, outcome = RunLimits(wall_ms=_DEADLINE_MS), "", None
        run = client.run_call(
            session, sandbox, "stubborn", "Bash", {"command": "python3 /workspace/stubborn.py"}, limits=limits
        )
        began = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DEADLINE_MS / 1000 + _GRACE_S):
                result = await run
                began, outcome = result.stdout.startswith(b"begun"), result.outcome
                ended = f"{outcome.kind}, {outcome.detail}"
        left = (await daemon.processes(sandbox)).count("python3")
        if left:
            daemon.group(sandbox).kill()
    return Run(
        began=began or left > 0,
        finished=left > 0 or (outcome is not None and outcome.kind is OutcomeKind.DEADLINE),
        found=f"{left} processes run {_GRACE_S} s after the deadline" if left else "",
        layer=f"the sweep of the call's tree: {ended}",
    )


async def _until_refused(make: Callable[[int], Awaitable[str]], cap: int) -> str:
    """Make four more than are allowed; why the last was not made, "" where it was."""
    refused = ""
    for number in range(cap + _BEYOND):
        try:
            refused = await make(number)
        except OpenSafeError as error:
            refused = f"{error.message} ({error.limit})"
    return refused


async def _running(daemon: Daemon, sandbox: str, started: int) -> int:
    """How many programs run, once as many do as were handed to the sandbox."""
    count = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GRACE_S):
            while count < started:
                count = sum(name.startswith(_RUNNING) for name in await daemon.processes(sandbox))
                await asyncio.sleep(_LOOK_S)
    return count


async def _start(client: Client, session: str, sandbox: str, name: str) -> str:
    """Start one that stays; why it was not started."""
    call = client.call(
        session,
        sandbox,
        f"{name}-{secrets.token_hex(4)}",
        "Bash",
        {"command": "sleep 60"},
        terminal=_TERMINAL,
        background=True,
    )
    async with contextlib.aclosing(call):
        async for event in call:
            if isinstance(event, Started):
                return ""
            if isinstance(event, EndedEvent):
                return f"{event.outcome.kind}, {event.outcome.detail}"
    return "no end"


def _counted(what: str, count: int, cap: int, refused: str) -> Run:
    return Run(
        began=count > 0,
        finished=count > cap or (count == cap and bool(refused)),
        found=f"{count} {what}, where {cap} are allowed" if count > cap else "",
        layer=refused,
    )
