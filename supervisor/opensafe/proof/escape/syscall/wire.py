"""A guest's link whose other end is watched: a cell joined to a namespace of the suite's own, and every frame there."""

import contextlib
import os
import pathlib
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Final, Self

from opensafe.proof.escape import host
from opensafe.proof.escape.ground import Ground, Row, tried
from opensafe.proof.escape.probe import Run
from opensafe.proof.escape.trial import Attempt
from opensafe.proof.escape.ways import Way
from opensafe.proof.escape.weakening import AS_SHIPPED, Weakening
from opensafe.warden.network import links, namespaces
from opensafe.warden.network.links import Link
from opensafe.warden.network.ports import Port, open_port
from opensafe.warden.sandbox.trust import Trust

#: Of documentation (RFC 5737): they are routed nowhere.
_LINK: Final = Link(0, "192.0.2.7", "192.0.2.6")
_ETH_P_ALL: Final = 3
_SO_RCVBUFFORCE: Final = 33
_BUFFER: Final = 4 << 20
_FRAME_MAX: Final = 1 << 16


class Wire:
    """A way out for one cell (lifecycle.WayOut): a link, and what arrives at the host's end of it."""

    trust: Trust | None = None

    def __init__(self, namespace: pathlib.Path) -> None:
        self._namespace = namespace
        self._watching: socket.socket | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def laid(cls, directory: pathlib.Path) -> AsyncIterator[Self]:
        """In a namespace that is gone afterwards."""
        namespace = directory / f"wire-{host.nonce()}"
        await namespaces.create(namespace)
        wire = cls(namespace)
        try:
            yield wire
        finally:
            if wire._watching is not None:
                wire._watching.close()
            namespaces.remove(namespace)

    async def attach(self, namespace: pathlib.Path) -> Link:
        """See WayOut."""
        theirs = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            await namespaces.inside(self._namespace, lambda: links.add(_LINK, theirs))
        finally:
            os.close(theirs)
        await namespaces.inside(namespace, links.raise_guest)
        await namespaces.inside(self._namespace, lambda: links.carry(_LINK))
        self._watching = await namespaces.inside(self._namespace, _watch)
        return _LINK

    async def port(self, namespace: pathlib.Path, link: Link) -> Port:
        """See WayOut."""
        return await namespaces.inside(namespace, lambda: open_port(link))

    async def detach(self, link: Link) -> None:
        """See WayOut."""
        await namespaces.inside(self._namespace, lambda: links.remove(link.interface))

    def frames(self) -> list[bytes]:
        """All that arrived and was not told yet."""
        found: list[bytes] = []
        while self._watching is not None:
            try:
                found.append(self._watching.recv(_FRAME_MAX))
            except BlockingIOError:
                break
        return found


def _watch() -> socket.socket:
    watching = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, 0)
    watching.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
    watching.bind((_LINK.interface, _ETH_P_ALL))
    return watching


class WireScene:
    """The end of a wire. Breached where a frame with this run's nonce arrives."""

    def __init__(self, wire: Wire | None = None) -> None:
        self._nonce = host.nonce()
        self._wire = wire
        self.facts: Mapping[str, object] = {"FORGED": self._nonce, "GATEWAY": _LINK.gateway}

    async def found(self, output: bytes) -> str:  # noqa: ARG002 - what it says does not matter
        """In words, how many came."""
        frames = self._wire.frames() if self._wire is not None else []
        forged = [frame for frame in frames if self._nonce.encode() in frame]
        return f"{len(forged)} forged frames at the host's end of the link" if forged else ""


@contextlib.asynccontextmanager
async def scene() -> AsyncIterator[WireScene]:
    """Without a wire, as of a call: sandboxes of the daemon have no link here, and what refuses it does so before."""
    yield WireScene()


def attempt(row: Row, way: Way, *, weakening: Weakening = AS_SHIPPED, opened: tuple[str, ...] = ()) -> Attempt:
    """The row's program in a cell with a link."""

    async def run(on: Ground) -> Run:
        async with Wire.laid(on.cells.layout.namespaces) as wire, on.cells.cell(weakening, way_out=wire) as cell:
            return await tried(cell, row, WireScene(wire), way, opened=opened)

    return run
