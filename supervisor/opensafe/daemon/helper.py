"""The egress helper: an unprivileged process of its own, so that streams never delay what connections wait for.

Sandboxes have no way out yet, so there is nothing for it to decide. It holds its place in the process tree and its
connection to the warden, which tells it when to end.
"""

import asyncio
import signal
import socket
import sys

from opensafe.warden.client import WardenClient


async def _run(connection: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    warden = WardenClient(socket.socket(fileno=connection))
    try:
        await warden.status()
        await stop.wait()
    finally:
        await warden.close()


if __name__ == "__main__":
    asyncio.run(_run(int(sys.argv[1])))
