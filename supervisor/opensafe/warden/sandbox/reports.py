"""Where a sandbox's sentry reports to: a socket made before the sandbox, and the session that names it.

The sentry's end is made by `runsc create`, which asks for a handshake and hands it down. While it waits for the
answer the buffer of its end is widened: that of a socket is its sender's, and as it comes it holds some 200 reports,
and none of a long command line.
"""

import asyncio
import contextlib
import pathlib
import socket
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from ...errors import DriverError
from .. import feed, kernel

_SESSION: Final = "Default"
_CONTEXT: Final = ("container_id", "group_id", "parent_thread_group_id")
#: Not execve alone: who belongs to which call follows from clones, and the death by SIGSYS shows in the exit.
_POINTS: Final = ("container/start", "sentry/clone", "sentry/execve", "sentry/exit_notify_parent")
#: Protobuf `Handshake{version: 1}` (points/common.proto).
_HANDSHAKE: Final = b"\x08\x01"


class Reports:
    """Where one sandbox's sentry is to report. `session` is for `runsc create`."""

    def __init__(self, session: pathlib.Path, listener: socket.socket) -> None:
        self.session = session
        self._connecting: asyncio.Task[socket.socket] | None = asyncio.create_task(_accept(listener))

    def take(self) -> socket.socket:
        """The sentry's connection, once `runsc create` has ended. Raises DriverError: it made none."""
        connecting = self._connecting
        if connecting is None or not connecting.done():
            raise DriverError("runsc opened no report session")
        self._connecting = None
        return connecting.result()

    async def close(self) -> None:
        """Give up what nobody has taken."""
        if self._connecting is not None:
            self._connecting.cancel()
            for result in await asyncio.gather(self._connecting, return_exceptions=True):
                if isinstance(result, socket.socket):
                    result.close()


@contextlib.asynccontextmanager
async def listening(bundle: pathlib.Path) -> AsyncIterator[Reports]:
    """A socket for the sentry of the sandbox whose bundle directory this is."""
    path, configured = bundle / "reports", bundle / "session.json"
    points = [{"name": name, "context_fields": _CONTEXT} for name in _POINTS]
    sink = {"name": "remote", "config": {"endpoint": str(path)}}
    session = {"name": _SESSION, "points": points, "sinks": [sink]}
    configured.write_bytes(msgspec.json.encode({"trace_session": session}))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC) as listener:
        listener.setblocking(False)
        listener.bind(str(path))
        listener.listen(1)
        reports = Reports(configured, listener)
        try:
            yield reports
        finally:
            await reports.close()


async def _accept(listener: socket.socket) -> socket.socket:
    """The connection of `runsc create`, whose end the sentry inherits."""
    loop = asyncio.get_running_loop()
    connection, _ = await loop.sock_accept(listener)
    try:
        if await loop.sock_recv(connection, len(_HANDSHAKE) + 1) != _HANDSHAKE:
            raise DriverError("runsc speaks another version of the report protocol")
        kernel.widen_peer(connection, listener.getsockname(), feed.REPORT_BUFFER)
        await loop.sock_sendall(connection, _HANDSHAKE)
    except BaseException:
        connection.close()
        raise
    return connection
