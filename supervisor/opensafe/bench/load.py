"""`opensafe bench load`: how long a client waits for a decision while others' programs write.

Three times in one run, on a daemon of its own: nothing else goes on; many streams at an ordinary pace; a few that send
as much as they can. The streams are read by another process, so what is timed is the daemon and the host, not the
asker's own event loop.
"""

import asyncio
import os
import sys
import time
from typing import Final

import msgspec

from opensafe.client import Client
from opensafe.errors import HostUnsuitable, OpenSafeError
from opensafe.model.decision import Action
from opensafe.proof.private import PrivateDaemon

from .streams import Came
from .timing import Times

ORDINARY: Final = 50
ORDINARY_BYTES_PER_S: Final = 10_000_000
SATURATING: Final = 4
#: Between an answer and the next question: without a pause it would be the asker who is the load.
_PACE_S: Final = 0.005
_WARM_UP: Final = 50
#: For all streams to begin, and for the reader to end.
_PATIENCE_S: Final = 30.0


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """decide: from the question in the client to the verdict in it. mb_per_s: output meanwhile, 10**6 bytes."""

    streams: int
    decide: Times
    mb_per_s: float


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The three."""

    idle: Row
    ordinary: Row
    saturated: Row
    runsc: str


def measure(seconds: float) -> Measured:
    """Ask for `seconds` in each of the three. Needs root. Raises OpenSafeError."""
    if os.geteuid() != 0:
        raise HostUnsuitable("the daemon that is measured needs root", remedy="Run this as root.")
    with PrivateDaemon("bench", {"asks": ("developer",), "runs": ("developer",)}) as daemon:
        return asyncio.run(_measure(daemon, seconds))


async def _measure(daemon: PrivateDaemon, seconds: float) -> Measured:
    async with Client.connect(daemon.socket_of("asks")) as asker, Client.connect(daemon.socket_of("runs")) as runner:
        session = await asker.create_session("bench")
        for _ in range(_WARM_UP):
            await _decide(asker, session)
        idle = Row(streams=0, decide=await _ask(asker, session, seconds), mb_per_s=0)
        rows = []
        for count, pace in (ORDINARY, ORDINARY_BYTES_PER_S // ORDINARY), (SATURATING, 0):
            running = await runner.create_session("bench")
            sandbox = (await runner.create_sandbox(running)).sandbox_id
            where = (str(daemon.socket_of("runs")), running, sandbox, str(count), str(pace))
            rows.append(await _beside(asker, session, seconds, count, where))
            await runner.close_session(running)
        ordinary, saturated = rows
        return Measured(idle=idle, ordinary=ordinary, saturated=saturated, runsc=(await asker.status()).runsc_version)


async def _beside(asker: Client, session: str, seconds: float, count: int, where: tuple[str, ...]) -> Row:
    pipe = asyncio.subprocess.PIPE
    arguments = ("-m", "opensafe.bench.streams", *where)
    reader = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdin=pipe, stdout=pipe, stderr=pipe)
    assert reader.stdout is not None  # noqa: S101 - asked for in the line above
    try:
        async with asyncio.timeout(_PATIENCE_S):
            ready = await reader.stdout.readline()
        if ready != b"ready\n":
            raise OpenSafeError("the streams did not begin", value=(await reader.communicate())[1][-500:].decode())
        decide = await _ask(asker, session, seconds)
        async with asyncio.timeout(_PATIENCE_S):
            out, said = await reader.communicate(b"")  # ends its standard input
    finally:
        if reader.returncode is None:
            reader.kill()
            await reader.wait()
    if reader.returncode:
        raise OpenSafeError("the streams broke off", value=said[-500:].decode(errors="replace"))
    came = msgspec.json.decode(out, type=Came)
    return Row(streams=count, decide=decide, mb_per_s=came.bytes / came.seconds / 1e6)


async def _ask(asker: Client, session: str, seconds: float) -> Times:
    taken: list[int] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end or not taken:
        begun = time.perf_counter_ns()
        await _decide(asker, session)
        taken.append(time.perf_counter_ns() - begun)
        await asyncio.sleep(_PACE_S)
    return Times.of(taken)


async def _decide(asker: Client, session: str) -> None:
    verdict = await asker.decide(session, "Bash", {"command": "ls -la src"})
    if verdict.action is not Action.ALLOW:
        raise OpenSafeError("the question is no longer answered with allow", value=verdict.rules[0].id)
