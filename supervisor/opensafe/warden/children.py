"""The unprivileged processes: started through `launch`, connected by a socketpair, restarted when they die.

Each runs as the service user without capabilities, under no_new_privs, with no descriptor but those named in its
command line, and dies with the warden. Interpreter and source are bound read-only below the run directory in a
mount namespace of its own, so that a checkout below a directory closed to the service user works too.
"""

import asyncio
import contextlib
import enum
import logging
import os
import pathlib
import pwd
import resource
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from ..errors import HostUnsuitable, StartError
from . import process, protocol, wire
from .backoff import Backoff
from .sandbox.layout import Layout

_log = logging.getLogger(__name__)

#: What a child may take from closing its connection to its end.
_EXIT_S: Final = 5.0
#: What a child takes to stop after its own drain.
_STOP_MARGIN_S: Final = 10.0
#: Descriptors that a child may have: each idle connection of a client costs one.
_OPEN_FILES: Final = 65536
_FEWEST_FILES: Final = 1024
#: Prepends the bound source to the path of an isolated interpreter, which ignores PYTHONPATH.
_BOOT: Final = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


class Role(enum.Enum):
    """Which child."""

    FRONT = "front"
    HELPER = "helper"


class Code(msgspec.Struct, frozen=True):
    """Where a child finds the interpreter and the package source inside its mount namespace."""

    python: pathlib.Path
    source: pathlib.Path

    def module(self, module: str, *arguments: str) -> list[str]:
        """Command line that runs `module` as `python -m` would, isolated from environment and working directory."""
        return [str(self.python), "-I", "-c", _BOOT, str(self.source), module, *arguments]


Command = Callable[[Role, Code, int, int], Sequence[str]]
"""Command line of a child: role, code, warden descriptor, and the audit log's (front) or the feed's (helper)."""

Serve = Callable[[Role, socket.socket, socket.socket | None], Awaitable[None]]
"""Serves one connection until it ends, and the feed that comes with a helper's."""


class Children:
    """Both children, kept alive by `run`."""

    def __init__(
        self,
        layout: Layout,
        account: pwd.struct_passwd,
        command: Command,
        audit: Callable[[], int],
        serve: Serve,
        drain_s: float = 0,
    ) -> None:
        self._layout = layout
        self._account = account
        self._command = command
        self._audit = audit
        self._serve = serve
        self._drain_s = drain_s
        self._stopping = asyncio.Event()
        #: The helper stays until the front has drained: what runs is watched to its end.
        self._drained = asyncio.Event()
        self._alive: dict[Role, process.Child] = {}
        #: Source and target of each bind mount. `launch` follows no symlink to a source, and an environment may lie
        #: behind one. The targets are empty directories on the host.
        self._binds = {
            pathlib.Path(sys.prefix).resolve(): layout.run / "code" / "venv",
            pathlib.Path(__file__).resolve().parents[2]: layout.run / "code" / "source",
        }
        self._open_files = open_files()
        self._code = Code(*self._places())

    async def run(self) -> None:
        """Start both and restart whichever dies, until `close`."""
        for target in self._binds.values():
            target.mkdir(mode=0o755, parents=True, exist_ok=True)
        async with asyncio.TaskGroup() as group:
            for role in Role:
                group.create_task(self._keep(role))

    async def close(self) -> None:
        """Let `run` end both."""
        self._stopping.set()

    def end(self, role: Role) -> None:
        """Kill a child, which is then started again."""
        if role in self._alive:
            self._alive[role].kill()

    async def _keep(self, role: Role) -> None:
        halt = self._drained if role is Role.HELPER else self._stopping
        try:
            await self._restart_until(halt, role)
        finally:
            if role is Role.FRONT:
                self._drained.set()

    async def _restart_until(self, halt: asyncio.Event, role: Role) -> None:
        loop = asyncio.get_running_loop()
        backoff = Backoff()
        while not halt.is_set():
            started = loop.time()
            code = await self._life(role, halt)
            if halt.is_set():
                return
            if code == protocol.REFUSES:
                raise StartError(f"the {role.value} refuses to start", remedy="Its message stands above.")
            delay = backoff.after(loop.time() - started)
            _log.error("the %s ended with %s and is started again in %.1f s", role.value, code, delay)
            waiting = asyncio.ensure_future(halt.wait())
            await asyncio.wait((waiting,), timeout=delay)
            waiting.cancel()

    async def _life(self, role: Role, halt: asyncio.Event) -> int:
        """One life of a child; its exit code."""
        ours, theirs = wire.pair()
        feed, feed_end = wire.pair() if role is Role.HELPER else (None, None)
        with theirs, feed_end or contextlib.nullcontext():
            child = self._spawn(role, theirs.fileno(), feed_end.fileno() if feed_end else self._audit())
        self._alive[role] = child
        serving = asyncio.ensure_future(self._serve(role, ours, feed))
        ended = asyncio.ensure_future(child.wait())
        stopping = asyncio.ensure_future(halt.wait())
        try:
            # A child that closes its connection and stays is of no use, so either end ends both.
            await asyncio.wait((serving, ended, stopping), return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                # The child drains what it has; the connection serves it until then.
                child.terminate()
                await asyncio.wait((ended,), timeout=self._drain_s + _STOP_MARGIN_S)
            elif not ended.done():
                # It closed its connection first: most likely on its way out, with a status that says why.
                await asyncio.wait((ended,), timeout=_EXIT_S)
        finally:
            for task in (ended, stopping):
                task.cancel()
            # Both are through before `close` waits on the same descriptor.
            await asyncio.gather(ended, stopping, return_exceptions=True)
            del self._alive[role]
            await child.close()
            # With the child gone its connection ends by itself.
            await serving
        return await child.wait()

    def _spawn(self, role: Role, connection: int, further: int) -> process.Child:
        kept = [connection, further]
        argv = [
            *(str(self._layout.launch), "--new-session", "--die-with-parent"),
            *("--user", f"{self._account.pw_uid}:{self._account.pw_gid}"),
            *("--drop-capabilities", "--no-new-privileges"),
            *("--rlimit", f"NOFILE={self._open_files}"),
            *(word for descriptor in kept for word in ("--keep-fd", str(descriptor))),
            *(word for source, target in self._binds.items() for word in ("--bind", str(source), str(target))),
            "--",
            *self._command(role, self._code, connection, further),
        ]
        environment = {"LANG": "C.UTF-8", "PATH": os.defpath, "HOME": "/", "USER": self._account.pw_name}
        return process.spawn(argv, keep=kept, env=environment, stderr=2)

    def _places(self) -> tuple[pathlib.Path, pathlib.Path]:
        venv, source = self._binds.values()
        return venv / pathlib.Path(sys.executable).relative_to(sys.prefix), source


def open_files() -> int:
    """What a child shall have, or what this host allows. This process takes as many: it holds some for every call.

    Raises HostUnsuitable for fewer than runsc itself gets by with.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, _OPEN_FILES), max(hard, _OPEN_FILES)))
    except (ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        if hard < _FEWEST_FILES:
            raise HostUnsuitable(
                "there are too few open files for a daemon",
                value=hard,
                limit=f"at least {_FEWEST_FILES}, better {_OPEN_FILES}",
                remedy="Raise the hard limit: LimitNOFILE= of the service, or ulimit -n.",
            ) from None
        return hard
    return _OPEN_FILES
