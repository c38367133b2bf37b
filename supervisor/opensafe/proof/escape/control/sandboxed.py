"""From within a sandbox: the daemon's sockets and ports, and the files of its policy: CP-02, CP-13."""

import asyncio
import contextlib
import hashlib
import pathlib
import shutil
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Final

from opensafe.client import Client
from opensafe.errors import OpenSafeError
from opensafe.proof.escape import wire
from opensafe.proof.escape.cell import Cell
from opensafe.proof.escape.ground import boxed
from opensafe.proof.escape.host import BELOW, Canary, nonce
from opensafe.proof.escape.probe import Run, Severity
from opensafe.proof.escape.trial import Trial
from opensafe.proof.escape.weakening import AS_SHIPPED, Bind, Weakening
from opensafe.proof.planting import plant

from .ground import Yard
from .row import row
from .site import Site

_PROGRAM: Final = "/workspace/probe.py"
_MOUNTED: Final = "/mnt"
_DONE: Final = b"all was tried"
_OPEN: Final = 0o777
_BUNDLE: Final = "policy.bundle.tar.gz"
_HINTS_MAX: Final = 100
#: By which ways a cell's program is run: as the last layer that stands before the mounts and the sentry, or without it.
_FILTERED, _UNFILTERED = ("policy",), ("policy", "call filter")

#: Sends `blob` to each socket and port, and waits a moment for an answer.
_KNOCK: Final = """
import socket
for family, place in {targets!r}:
    try:
        with socket.socket(socket.AF_UNIX if family == "unix" else socket.AF_INET) as door:
            door.settimeout(2)
            door.connect(place if family == "unix" else tuple(place))
            door.sendall({blob!r})
            print(place, "open", b"".join(iter(lambda: door.recv(4096), b""))[:16])
    except (OSError, ValueError) as error:
        print(place, error)
print({done!r})
"""
#: Writes into each file and makes one beside it, by its own path and over a link in the workspace.
_WRITE: Final = """
import os
for number, path in enumerate({targets!r}):
    link = "/workspace/link%d" % number
    for way in (path, link):
        try:
            if way == link and not os.path.islink(link):
                os.symlink(path, link)
            with open(way, "r+b") as file:
                file.write(b"{word}")
            print(way, "written")
        except OSError as error:
            print(way, error)
    try:
        with open(os.path.join(os.path.dirname(path), "{word}"), "wb"):
            print(path, "made beside")
    except OSError as error:
        print(path, error)
print({done!r})
"""
#: Links that lead to the host's directories.
_LINK: Final = """
import os
for number, target in enumerate({targets!r}):
    os.symlink(target, "/workspace/over%d" % number)
print({done!r})
"""


class _Doors:
    """What a guest is to knock at, and what of it was opened: listeners of the suite's, and the daemon's own socket."""

    def __init__(self, site: Site, word: str) -> None:
        self.word = word
        self.blob = wire.request(f"{wire.SESSIONS}CreateSession", wire.message(f1=word))
        self._site = site
        self._taken: list[str] = []
        self.ports: list[int] = []
        self.paths = ["principals/agent/opensafe.sock", f"doors-{word}.sock", f"runsc/runsc-{word}.sock"]

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Stand, until the end."""
        async with contextlib.AsyncExitStack() as stack:
            for path in self.paths[1:]:
                listener = await asyncio.start_unix_server(partial(self._serve, path), self._site.run / path)
                stack.callback((self._site.run / path).unlink)
                (self._site.run / path).chmod(_OPEN)
                await stack.enter_async_context(listener)
            tcp = await asyncio.start_server(partial(self._serve, "a port"), "0.0.0.0", 0)  # noqa: S104 - whichever address a guest finds
            self.ports.append(tcp.sockets[0].getsockname()[1])
            await stack.enter_async_context(tcp)
            yield

    def program(self) -> bytes:
        """What knocks at all of them, where they are on the host and where they would be mounted."""
        targets: list[tuple[str, object]] = []
        for path in self.paths:
            targets += [("unix", f"{self._site.run}/{path}"), ("unix", f"{_MOUNTED}/{path}")]
        targets += [("unix", f"\0{self._site.run.name}"), ("unix", f"{_MOUNTED}/metrics/metrics.sock")]
        for address in ("127.0.0.1", "10.202.0.1", "10.201.0.1"):
            targets += [("tcp", (address, port)) for port in self.ports]
        return _KNOCK.format(targets=targets, blob=self.blob, done=_DONE.decode()).encode()

    def found(self) -> str:
        """Who was let in."""
        served = self._site.records("session", agent=self.word)
        return "; ".join([*self._taken, *(["the daemon's own socket: a session on record"] if served else [])])

    async def _serve(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(2):
                if self.word.encode() in await reader.read(4096):
                    self._taken.append(f"{name} accepted")
        writer.close()


async def _called(site: Site, program: bytes) -> bytes:
    """Run a program by a call of its own, as policy lets it; what it said."""
    async with site.client() as client, boxed(client, "guest") as (session, sandbox):
        return await _run(client, session, sandbox, program)


async def _run(client: Client, session: str, sandbox: str, program: bytes) -> bytes:
    await plant(client.files(session, sandbox), _PROGRAM, program)
    result = await client.run_call(session, sandbox, "probe", "Bash", {"command": f"python3 {_PROGRAM}"})
    return result.stdout + result.stderr


async def _in_cell(cell: Cell, program: bytes, opened: Sequence[str]) -> bytes:
    launch = cell.launch("python3", "-")
    run = cell.unfiltered if opened == _UNFILTERED else cell.run
    said = await run(launch, program)
    return said.stdout + said.stderr


async def _as_root(cell: Cell, program: bytes) -> bytes:
    """Whom no mode of a file keeps out."""
    said = await cell.raw("python3", "-", capabilities=("CAP_DAC_OVERRIDE",), stdin=program)
    return said.stdout + said.stderr


def _told(said: bytes, found: str, opened: Sequence[str], layer: str) -> Run:
    lines = said.decode(errors="replace").splitlines()
    return Run(
        opened=tuple(opened),
        began=bool(lines),
        finished=_DONE in said,
        found=found,
        layer=layer,
        hints=tuple(line[:120] for line in lines if line != _DONE.decode())[:_HINTS_MAX],
    )


async def _knocked(yard: Yard, opened: Sequence[str] = (), weakened: bool = False) -> Run:
    site = await yard.site()
    doors = _Doors(site, nonce())
    async with doors.open():
        if not opened and not weakened:
            said = await _called(site, doors.program())
        else:
            bind = Bind(source=site.run, destination=_MOUNTED, writable=True)
            weak = Weakening(binds=(bind,), host_network=True, runsc=("--host-uds=open",)) if weakened else AS_SHIPPED
            cells = await yard.cells()
            async with cells.cell(weak) as cell:
                said = await (_as_root(cell, doors.program()) if weakened else _in_cell(cell, doors.program(), opened))
    layer = "no such path in the guest, and a network namespace of its own"
    return _told(said, doors.found(), () if weakened else opened, layer)


async def _written(yard: Yard, opened: Sequence[str] = (), weakened: bool = False) -> Run:
    site, word = await yard.site(), nonce()
    with Canary.planted(BELOW) as beside:
        place = beside.directory / _BUNDLE
        shutil.copy(site.bundles.place, place)
        place.chmod(0o666)
        watched = [site.bundles.place, place, *site.state.glob("bundles/*"), *site.state.glob("keys/*")]
        async with site.turn:
            before = {path: _digest(path) for path in watched}
            program = _WRITE.format(targets=[str(path) for path in watched], word=word, done=_DONE.decode()).encode()
            if not opened and not weakened:
                said = await _called(site, program) + await _over_links(site, watched, word)
            else:
                bind = Bind(source=BELOW, destination=str(BELOW), writable=True)
                cells = await yard.cells()
                async with cells.cell(Weakening(binds=(bind,)) if weakened else AS_SHIPPED) as cell:
                    said = await _in_cell(cell, program, opened or _FILTERED)
            found = [f"{path.name} changed" for path in watched if _digest(path) != before[path]]
            found += [f"a file beside {path.name}" for path in watched if (path.parent / word).exists()]
    return _told(said, "; ".join(found[:3]), () if weakened else opened, "no such path in the guest")


async def _over_links(site: Site, watched: Sequence[pathlib.Path], word: str) -> bytes:
    """The file API over links that lead to the host's paths. Raises OpenSafeError where there are no links."""
    program = _LINK.format(targets=[str(path.parent) for path in watched], done=_DONE.decode()).encode()
    refused = []
    async with site.client() as client, boxed(client, "links") as (session, sandbox):
        said = await _run(client, session, sandbox, program)
        if _DONE not in said:
            raise OpenSafeError("the links can't be made", value=said[-300:])
        files = client.files(session, sandbox)
        for number, path in enumerate(watched):
            for name in (path.name, word):
                place = f"/workspace/over{number}/{name}"
                try:
                    await files.write(place, word.encode())
                except OpenSafeError as error:
                    refused.append(f"{place} {error.reason}")
    return "\n".join(("", *refused)).encode()


def _digest(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


TRIALS: Final[tuple[Trial, ...]] = (
    row(
        id="CP-02",
        title="the daemon's socket, the sentry's, and a port of the host's from within a sandbox",
        severity=Severity.ESCAPE,
        attacks=("T1611", "T1559"),
        benchmark=("docker_socket",),
        breach="a listener of the suite's accepts the nonce, or the daemon has a session of it on record",
        control="flag: run directory mounted, sockets of the host open, the host's network, and root in the guest",
        attempts=(_knocked, partial(_knocked, opened=_FILTERED), partial(_knocked, opened=_UNFILTERED)),
        weak=partial(_knocked, weakened=True),
    ),
    row(
        id="CP-13",
        title="bundle, archive and keys written from a sandbox, by their paths and over links in the workspace",
        severity=Severity.INTEGRITY,
        attacks=("T1565.001", "T1562.001"),
        breach="the digest of one of them changes, or a file appears beside it",
        control="flag: a directory with a copy of the bundle mounted, writable for all",
        attempts=(_written, partial(_written, opened=_FILTERED), partial(_written, opened=_UNFILTERED)),
        weak=partial(_written, weakened=True),
    ),
)
