"""Where probes run: in sandboxes of a daemon that stands before the world, and the same in the open as a control."""

import asyncio
import contextlib
import os
import pathlib
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

import msgspec

from opensafe.client import Client, Limits
from opensafe.model.decision import Action as Decided
from opensafe.proof.escape import host
from opensafe.proof.escape.bundles import in_force
from opensafe.proof.planting import plant
from opensafe.proof.world import World, plan

from .policy import Bundles
from .probe import Action, NetworkProbe, Place, Scene

#: What a session may send.
SESSION_BYTES: Final = 4 << 20

_CALL_S: Final = 90
_PROGRAM: Final = "/workspace/probe.py"


class Daemon(Protocol):
    """A daemon of the suite's own, which it may hurt."""

    run: pathlib.Path

    @property
    def pid(self) -> int: ...

    def socket_of(self, principal: str) -> pathlib.Path: ...


class Said(msgspec.Struct, frozen=True):
    """A program's output, or (fault) why there is none."""

    stdout: bytes = b""
    fault: str = ""


class Listener:
    """A TCP listener in the host's own namespace, on every address. What it is sent stands in `received`."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.port = 0

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Listen on a free port."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(10):
                    self.received.append(await reader.read(4096))
            writer.close()

        server = await asyncio.start_server(serve, "0.0.0.0", 0)  # noqa: S104 - whichever address a guest finds
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield


class Stage:
    """A daemon and a world together."""

    def __init__(self, world: World, daemon: Daemon | None, bundles: Bundles | None, template: str) -> None:
        """daemon, bundles: None where only controls run. template: the runner image, which must have Python."""
        self.world = world
        self._daemon = daemon
        self._bundles = bundles
        self._template = template

    async def guest(self, probe: NetworkProbe, program: bytes, scene: Scene) -> Said:
        """Run a program in a sandbox of its own, granted what its call names. The sandbox is gone afterwards."""
        if self._daemon is None:
            return Said(fault="no daemon")
        names = ["allowed.test", *(granted_name(name, scene) for name in probe.granted)]
        command = " ".join(["python3", _PROGRAM, *(f"https://{name}/" for name in names)])
        async with Client.connect(self._daemon.socket_of("default")) as client:
            session = await client.create_session("escape", limits=Limits(egress_bytes=SESSION_BYTES))
            try:
                sandbox = (await client.create_sandbox(session, self._template)).sandbox_id
                await plant(client.files(session, sandbox), _PROGRAM, program)
                async with asyncio.timeout(_CALL_S):
                    result = await client.run_call(session, sandbox, "probe", "Bash", {"command": command})
            finally:
                await client.close_session(session)
        if result.verdict.action is not Decided.ALLOW:
            return Said(fault=f"policy: {result.verdict.action} by {', '.join(hit.id for hit in result.verdict.rules)}")
        return Said(result.stdout, "" if result.stdout else f"{result.outcome.kind}: {result.stderr[-300:]!r}")

    async def control(self, probe: NetworkProbe, program: bytes) -> Said:
        """Run a program where nothing is in its way."""
        if probe.place is Place.PLAIN:
            ended = await self.world.plain([sys.executable, "-I", "-"], program, _CALL_S)
            return Said(ended.stdout, "" if ended.stdout else repr(ended.stderr[-300:]))
        return Said((await host.python("-I", "-", stdin=program)).stdout)

    async def act(self, action: Action) -> int:
        """Do to the daemon what a probe asks for. When it was done, UTC microseconds.

        Raises OpenSafeError, OSError, TimeoutError.
        """
        match action:
            case Action.KILL_ENVOY:
                os.kill(self._envoy(), signal.SIGKILL)
            case Action.DELETE if not any(line.startswith("link ") for line in await self.gateway()):
                raise FileNotFoundError("the gateway has no link to the sandbox that is about to go")
            case Action.REVOKE if self._daemon is not None and self._bundles is not None:
                async with Client.connect(self._daemon.socket_of("default")) as client:
                    return await in_force(client, self._bundles.activate(traps=False))
        return time.time_ns() // 1000

    async def gateway(self) -> tuple[str, ...]:
        """What the gateway's namespace holds: `listens ADDRESS:PORT`, `neighbour …`, `link NAME`. Raises OSError."""
        if self._daemon is None:
            return ()
        pinned = next(self._daemon.run.glob("*/gateway"), None)
        if pinned is None:
            return ()
        inside = ("nsenter", f"--net={pinned}", "--")
        lines = [f"listens {line.split()[3]}" for line in await _lines(*inside, "ss", "-Hltn")]
        lines += [f"neighbour {line}" for line in await _lines(*inside, "ip", "neigh")]
        links = [line.split(":")[1].strip().partition("@")[0] for line in await _lines(*inside, "ip", "-o", "link")]
        lines += [f"link {name}" for name in links if name[0] == "g" and name[1:].isdigit()]
        return tuple(lines)

    def _envoy(self) -> int:
        assert self._daemon is not None  # noqa: S101 - only a guest's run has an action
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes()
                name = (entry / "exe").readlink().name
                if name == "envoy" and os.fsencode(self._daemon.run) in command + (entry / "environ").read_bytes():
                    return int(entry.name)
        raise ProcessLookupError("no Envoy of this daemon runs")


def granted_name(pattern: str, scene: Scene) -> str:
    """A probe's granted name with its addresses in it."""
    return pattern.format(sink=plan.spell(scene.sink), private=plan.spell(scene.private)[3:])


async def _lines(*argv: str) -> Sequence[str]:
    return (await host.command(*argv)).splitlines()
