"""What it takes until a name that the policy no longer has is refused: a part of `opensafe bench egress`.

A whole daemon before the world. A program in a sandbox makes one connection after the other and says of each whether it
was let through; meanwhile a bundle without the name is put in place. The time ends when its first refusal is heard, so
it holds the file watch, both engines, the canary, the record, the helper's change and one connection.
"""

import asyncio
import pathlib
import time
from typing import Final

from opensafe.client import Client, Stdout
from opensafe.errors import OpenSafeError
from opensafe.proof.escape.network.policy import Bundles
from opensafe.proof.private import PrivateDaemon
from opensafe.proof.world import World, plan

from .timing import Times

_NAME: Final = f"{plan.spell(plan.ALLOWED)}.trap.test"
_UPLINK: Final = "10.203.244.8/30"
_PRINCIPAL: Final = "bench"
_DEADLINE_S: Final = 20
_PROGRAM: Final = "/workspace/ask.py"
_ALLOWED, _REFUSED = b"y", b"n"
#: Of those that are let through before the change.
_FIRST: Final = 5
_ASK: Final = """
import socket, sys, time
name = sys.argv[1].split("/")[2]
peer = (socket.gethostbyname(name), 80)
while True:
    try:
        with socket.create_connection(peer) as asked:
            asked.sendall(f"GET /hello HTTP/1.1\\r\\nHost: {name}\\r\\n\\r\\n".encode())
            status = asked.recv(4096)[9:12]
    except OSError:  # the change cut what was open
        continue
    print({b"200": "y", b"403": "n"}.get(status, ""), end="", flush=True)
    time.sleep(0.005)
"""


async def measure(world: World, bundles: Bundles, changes: int) -> Times:
    """Change the policy so often on a daemon of its own. Raises OpenSafeError."""
    more = f"[egress]\n{world.egress(_UPLINK)}"
    daemon = PrivateDaemon("bench", {_PRINCIPAL: ("developer",)}, bundle=bundles.place, key=bundles.public, more=more)
    try:
        await asyncio.to_thread(daemon.start)
        return await _on(daemon.socket_of(_PRINCIPAL), bundles, changes)
    finally:
        await asyncio.to_thread(daemon.stop)
        daemon.remove()


async def _on(socket: pathlib.Path, bundles: Bundles, changes: int) -> Times:
    async with Client.connect(socket) as client:
        session = await client.create_session("bench")
        sandbox = (await client.create_sandbox(session)).sandbox_id
        await client.files(session, sandbox).write(_PROGRAM, _ASK.encode())
        took = []
        for number in range(changes):
            took.append(await _change(client, bundles, session, sandbox, f"change-{number}"))
            await _in_force(client, bundles.activate(traps=True))
        await client.close_session(session)
        return Times.of(took)


async def _change(client: Client, bundles: Bundles, session: str, sandbox: str, call: str) -> int:
    """Nanoseconds from a bundle in place to the first refusal that is heard."""
    command = f"python3 {_PROGRAM} http://{_NAME}/"
    events = client.call(session, sandbox, call, "Bash", {"command": command})
    heard, begun = 0, 0
    try:
        async with asyncio.timeout(_DEADLINE_S):
            async for event in events:
                if not isinstance(event, Stdout):
                    continue
                if _REFUSED in event.data and begun:
                    return time.monotonic_ns() - begun
                heard += len(event.data)
                if heard >= _FIRST and not begun:
                    bundles.activate(traps=False)
                    begun = time.monotonic_ns()
    except TimeoutError:
        raise OpenSafeError("a name is reached that the policy no longer has", limit=f"{_DEADLINE_S} s") from None
    finally:
        await events.aclose()
    raise OpenSafeError("the program in the sandbox ended before the change", value=f"{heard} connections")


async def _in_force(client: Client, revision: str) -> None:
    async with asyncio.timeout(_DEADLINE_S):
        async for settled in client.watch_bundle():
            if settled.revision == revision:
                return
