"""Output in bulk: one program's standard output through the daemon, beside a bare gRPC server that streams as much.

    python -m opensafe.bench.bulk SOCKET

The bare server is a process of its own, as the daemon's is: Python, grpc.aio, a unix socket, messages as large as the
daemon reads from a pipe, no message type. It says `ready` and ends with its standard input. Both have the same client.
"""

import asyncio
import contextlib
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
import msgspec

from opensafe.client import Client, Ended, Stdout
from opensafe.errors import OpenSafeError
from opensafe.model.ids import new_id
from opensafe.model.outcome import OutcomeKind

CHUNK: Final = 64 * 1024
#: What one call may write, by the grant of the tool.
CALL_MAX: Final = 64 << 20
_SERVICE: Final = "opensafe.bench.Bulk"
_METHOD: Final = "Read"
_START_S: Final = 30.0


class Bulk(msgspec.Struct, frozen=True, kw_only=True):
    """10**6 bytes a second. ratio: ours to the bare server's."""

    bytes: int
    ours_mb_per_s: float
    bare_mb_per_s: float
    ratio: float


async def measure(client: Client, session: str, sandbox_id: str, size: int) -> Bulk:
    """`size` bytes each way, in pieces by turns. Raises OpenSafeError."""
    sizes = [min(CALL_MAX, size - at) for at in range(0, size, CALL_MAX)]
    ours = bare = 0
    async with _bare() as channel:
        read: Any = channel.unary_stream(f"/{_SERVICE}/{_METHOD}")
        await _read(read, CHUNK)
        for number, part in enumerate(sizes):
            for turn in (number % 2, 1 - number % 2):
                begun = time.perf_counter_ns()
                if turn:
                    await _read(read, part)
                    bare += time.perf_counter_ns() - begun
                else:
                    await _call(client, session, sandbox_id, part)
                    ours += time.perf_counter_ns() - begun
    return Bulk(bytes=size, ours_mb_per_s=size * 1e3 / ours, bare_mb_per_s=size * 1e3 / bare, ratio=bare / ours)


async def _call(client: Client, session: str, sandbox_id: str, size: int) -> None:
    # In blocks as large as a pipe: with small ones it is the guest that is measured.
    argv = ["/usr/bin/dd", "if=/dev/zero", f"bs={CHUNK}", f"count={size // CHUNK}", "status=none"]
    came = 0
    async for event in client.call(session, sandbox_id, new_id("bench"), "Exec", {"argv": argv}):
        if isinstance(event, Stdout):
            came += len(event.data)
        elif isinstance(event, Ended) and (event.outcome.kind is not OutcomeKind.EXITED or came != size):
            raise OpenSafeError("bulk output did not come whole", value=f"{came} of {size} bytes, {event.outcome}")


async def _read(read: Any, size: int) -> None:  # noqa: ANN401 - grpc.aio's multicallable, untyped
    came = 0
    async for data in read(str(size).encode()):
        came += len(data)
    if came != size:
        raise OpenSafeError("the bare server broke off", value=f"{came} of {size} bytes")


@contextlib.asynccontextmanager
async def _bare() -> AsyncIterator[grpc.aio.Channel]:
    pipe = asyncio.subprocess.PIPE
    with tempfile.TemporaryDirectory(prefix="opensafe-bench-bulk-") as directory:
        path = pathlib.Path(directory, "socket")
        server = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "opensafe.bench.bulk", str(path)), stdin=pipe, stdout=pipe
        )
        assert server.stdout is not None  # noqa: S101 - asked for in the line above
        try:
            async with asyncio.timeout(_START_S):
                if await server.stdout.readline() != b"ready\n":
                    raise OpenSafeError("the bare server did not start")
            async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
                yield channel
            await server.communicate(b"")
        finally:
            if server.returncode is None:
                server.kill()
                await server.wait()


async def _serve(path: str) -> None:
    async def stream(request: bytes, _context: object) -> AsyncIterator[bytes]:
        left = int(request)
        while left:
            yield bytes(min(CHUNK, left))
            left -= min(CHUNK, left)

    server = grpc.aio.server()
    handler: Any = grpc.unary_stream_rpc_method_handler(stream)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, {_METHOD: handler}),))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    os.write(1, b"ready\n")
    await ended.wait()
    await server.stop(None)


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
