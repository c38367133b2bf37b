"""Other users of the host at the daemon's doors and directories: CP-01, CP-07, CP-23."""

import contextlib
import grp
import hashlib
import pathlib
from collections.abc import Iterator
from functools import partial
from typing import Final

from opensafe.proof.escape import wire
from opensafe.proof.escape.ground import boxed, opened
from opensafe.proof.escape.host import nonce
from opensafe.proof.escape.probe import Run, Severity
from opensafe.proof.escape.resource.counters import links
from opensafe.proof.escape.trial import Trial

from .ground import SHIPPED, Yard
from .row import row
from .site import AGENT, NEIGHBOUR, Site
from .stranger import NOBODY, READ_MAX, Answer, Attempt, stranger

#: What everybody on the host may read of a daemon's state, its policy and public keys, and of its run directory, its
#: code; and what is the suite's own there.
_PUBLIC_STATE: Final = ("bundles", "keys")
_PUBLIC_RUN: Final = ("code", "log", "opensafe.toml")
_REFLECTION: Final = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


def _gid(group: str) -> int:
    return grp.getgrnam(group).gr_gid


def _session(site: Site, principal: str, agent: str) -> Attempt:
    return Attempt(
        do="rpc",
        path=str(site.socket(principal)),
        method=f"{wire.SESSIONS}CreateSession",
        payload=wire.message(f1=agent),
    )


async def _doors(yard: Yard, on: str = SHIPPED, *, directory: bool = False) -> Run:
    """Nobody, and a member of another principal's group, ask for a session. directory: open it first."""
    site = await yard.site(on)
    word = nonce()
    asked, own = _session(site, AGENT[0], word), _session(site, NEIGHBOUR[0], f"{word}-own")
    connect = Attempt(do="connect", path=str(site.socket()))
    with _opened(site.socket().parent) if directory else contextlib.nullcontext():
        nobody = await stranger(NOBODY, (asked, connect))
        neighbour = await stranger(_gid(NEIGHBOUR[1]), (asked, connect, own))
        layer = _stopped(site, nobody[1])
    served = site.records("session", agent=word)
    twin = site.records("session", agent=f"{word}-own")
    return Run(
        opened=("the socket's directory",) if directory else (),
        began=True,
        finished=True,
        found=f"{len(served)} sessions of strangers on record, as {AGENT[0]}'s" if served else "",
        layer=layer,
        hints=tuple(answer.error for answer in (*nobody, *neighbour)),
        fault="" if twin else "the neighbour was not served at its own socket",
    )


def _stopped(site: Site, connecting: Answer) -> str:
    directory, socket = site.socket().parent.stat(), site.socket().stat()
    return f"{connecting.error}: directory {directory.st_mode & 0o7777:o}, socket {socket.st_mode & 0o7777:o}"


@contextlib.contextmanager
def _opened(directory: pathlib.Path) -> Iterator[None]:
    mode = directory.stat().st_mode & 0o7777
    directory.chmod(0o2777)
    try:
        yield
    finally:
        directory.chmod(mode)


async def _directories(yard: Yard, on: str = SHIPPED) -> Run:
    """Nobody and the neighbour walk through state and run directory; and what a sandbox has mounted of them.

    Of the control's daemon the audit log alone counts: it has faults of other rows, which open more.
    """
    site = await yard.site(on)
    word = nonce()
    walks = [Attempt(do="walk", path=str(path), name=word) for path in (site.state, site.run)]
    found = []
    seen = 0
    async with site.client() as client, boxed(client, word) as (_, sandbox):
        mounted = _mounted(site, sandbox)
        for gid in (NOBODY, _gid(NEIGHBOUR[1])):
            for answer in await stranger(gid, walks):
                seen += len(answer.files)
                found += [f"{path} was read" for path, digest in answer.files.items() if _secret(site, path, digest)]
    for path in (*site.state.rglob(word), *site.run.rglob(word)):
        found.append(f"{path} was made")
        path.unlink()
    log = site.state / "audit"
    found = [*found, *mounted] if on == SHIPPED else [one for one in found if one.startswith(f"{log}/")]
    return Run(
        began=seen > 0,
        finished=True,
        found="; ".join(found[:3]),
        layer=f"owners and modes below state and run directory; the log's is {log.stat().st_mode & 0o7777:o}",
        hints=(f"{seen} public files were read",),
    )


def _secret(site: Site, path: str, digest: str) -> bool:
    """Whether what was read is what lies there, and is not for everybody."""
    for base, public in ((site.state, _PUBLIC_STATE), (site.run, _PUBLIC_RUN)):
        if path.startswith(f"{base}/") and path.removeprefix(f"{base}/").partition("/")[0] in public:
            return False
    with pathlib.Path(path).open("rb") as file:
        return hashlib.sha256(file.read(READ_MAX)).hexdigest() == digest or path.startswith(f"{site.state}/audit/")


def _mounted(site: Site, sandbox: str) -> list[str]:
    """Sources of a sandbox's mounts that lie below state or run directory, but for its own bundle's files."""
    found = []
    for mount in site.config(sandbox)["mounts"]:
        source = str(mount.get("source", ""))
        inside = source.startswith((f"{site.state}/", f"{site.run}/"))
        if inside and not source.startswith(f"{site.run}/bundles/"):
            found.append(f"{source} is mounted at {mount['destination']}")
    return found


async def _unasked(yard: Yard, on: str = SHIPPED) -> Run:
    """Metrics, reflection and health without a right to them, and what listens beside the sockets."""
    site = await yard.site(on)
    word = nonce()
    scrape = Attempt(do="http", path=str(site.run / "metrics/metrics.sock"))
    health = Attempt(do="rpc", path=str(site.socket()), method=wire.HEALTH)
    async with site.client() as client, opened(client, word) as session:
        answers = await stranger(NOBODY, (scrape, health))
        root = await stranger(0, (scrape,), uid=0)
    reflected = await wire.ask(site.socket(), _REFLECTION, wire.message(f7=""))
    found = []
    if b"opensafe_" in answers[0].data:
        found.append("nobody was told the metrics")
    if not answers[1].error:
        found.append("nobody was told the health")
    if word.encode() in root[0].data or session.encode() in root[0].data:
        found.append("the metrics name a session")
    if reflected.messages:
        found.append("reflection lists the services")
    found += [f"port {port} is open" for port in _listening(site)]
    return Run(
        began=b"opensafe_" in root[0].data,
        finished=True,
        found="; ".join(found),
        layer=f"metrics: {answers[0].error}; health: {answers[1].error.split(' ')[0]}; reflection: {reflected.code}",
    )


def _listening(site: Site) -> list[int]:
    """TCP ports on which the daemon's processes listen."""
    parts = (site.daemon.pid, site.daemon.child("front"), site.daemon.child("helper"))
    inodes = {link for pid in parts for link in links(pid)}
    ports = []
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                ports.append(int(fields[1].rpartition(":")[2], 16))
    return ports


TRIALS: Final[tuple[Trial, ...]] = (
    row(
        id="CP-01",
        title="other users at a principal's socket (no peer is asked for: the socket's directory is the identity)",
        severity=Severity.LATERAL,
        attacks=("T1559", "T1078"),
        breach="a session of the stranger's, by its nonce, in the audit log",
        control="mutant: directories 2777 and sockets 0777",
        attempts=(_doors, partial(_doors, directory=True)),
        weak=partial(_doors, on="unguarded"),
        alone=True,
    ),
    row(
        id="CP-07",
        title="other users read and write below state and run directory; what of them a sandbox has mounted",
        severity=Severity.HOST_LEAK,
        attacks=("T1083", "T1005"),
        breach="the hash of a file that is not for everybody, or a file of the stranger's",
        control="mutant: audit directory 0755 and segments 0666",
        attempts=(_directories,),
        weak=partial(_directories, on="unguarded"),
    ),
    row(
        id="CP-23",
        title="metrics, health, reflection and open ports without a right to them",
        severity=Severity.HOST_LEAK,
        attacks=("T1046", "T1082"),
        breach="the text of the metrics, a status, a list of services or a listening port",
        control="mutant: directories 2777, sockets of metrics 0777",
        attempts=(_unasked,),
        weak=partial(_unasked, on="unguarded"),
    ),
)
