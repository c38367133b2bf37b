"""RS-16: one sandbox opens as many connections to the gateway as it can, and holds them while another needs one."""

import contextlib
import pathlib
import secrets
from collections.abc import AsyncIterator
from typing import Final

from opensafe.client import Client, Stdout
from opensafe.egress.connections import MOST
from opensafe.proof import private
from opensafe.proof.escape.network.policy import Bundles
from opensafe.proof.escape.probe import Run
from opensafe.proof.planting import plant

from . import counters
from .daemons import Daemon, Kind
from .ground import Ground

#: Descriptors of Envoy's beside those of connections that come and go: its own, and upstream ones.
_SLACK: Final = 64
_ALLOWED: Final = "http://allowed.test/hello"
#: A third of them asks for a tunnel, a third begins TLS and says nothing, a third says nothing at all.
_FLOOD: Final = """
import socket, time
address = socket.getaddrinfo("allowed.test", 80, socket.AF_INET)[0][4][0]
held = []
for number in range(960):
    try:
        peer = socket.create_connection((address, 443 if number % 3 == 0 else 80), 2)
        if number % 3 == 1:
            peer.sendall(b"CONNECT allowed.test:443 HTTP/1.1\\r\\nHost: allowed.test:443\\r\\n")
        held.append(peer)
    except OSError:
        if number - len(held) > 40:
            break
print("held", len(held), flush=True)
time.sleep(60)
"""


async def connections(ground: Ground, kind: Kind) -> Run:
    """Count what Envoy has open, and have the neighbour fetch a page, while the flood stands."""
    world, place = await ground.world(), ground.scratch / secrets.token_hex(4)
    place.mkdir()
    bundles = Bundles(place, pathlib.Path(private.programs().bundle))
    bundles.activate(traps=False)
    more = f"[egress]\n{world.egress()}"
    async with (
        Daemon.running(kind, more=more, bundle=bundles.place, key=bundles.public) as daemon,
        daemon.sandbox() as (client, session, sandbox),
        daemon.sandbox() as (neighbour, other, quiet),
    ):
        await plant(client.files(session, sandbox), "/workspace/flood.py", _FLOOD.encode())
        before = await _fetched(neighbour, other, quiet)
        idle = len(counters.links(daemon.envoy()))
        async with _flooding(client, session, sandbox) as held:
            grown = len(counters.links(daemon.envoy())) - idle
            after = await _fetched(neighbour, other, quiet)
    found = [
        *([f"{grown} descriptors more at the proxy, where {MOST} are allowed"] if grown > MOST + _SLACK else []),
        *([f"the neighbour got {after}"] if before == "200" != after else []),
    ]
    return Run(
        began=before == "200" and grown > 0,
        finished=held.startswith("held"),
        found="; ".join(found),
        layer=f"the gateway's packet rules: {held}, {grown} descriptors more at the proxy, the neighbour got {after}",
    )


@contextlib.asynccontextmanager
async def _flooding(client: Client, session: str, sandbox: str) -> AsyncIterator[str]:
    """While the flood stands; what it said."""
    command = {"command": "python3 /workspace/flood.py http://allowed.test/ https://allowed.test/"}
    said = b""
    async with contextlib.aclosing(client.call(session, sandbox, "flood", "Bash", command)) as events:
        async for event in events:
            said += event.data if isinstance(event, Stdout) else b""
            if b"\n" in said:
                break
        yield said.decode(errors="replace").strip()


async def _fetched(client: Client, session: str, sandbox: str) -> str:
    """The status of a page that the neighbour fetches; "000" of none."""
    command = {"command": f"curl -s -m 10 -o /dev/null -w '%{{http_code}}' {_ALLOWED}"}
    said = await client.run_call(session, sandbox, f"page-{secrets.token_hex(4)}", "Bash", command)
    return said.stdout.decode(errors="replace").strip() or f"{said.verdict.action}, {said.outcome.kind}"
