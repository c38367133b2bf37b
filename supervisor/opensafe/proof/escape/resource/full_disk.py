"""RS-19: the disk that the audit log lies on is full."""

import contextlib
import pathlib
import secrets
from collections.abc import Iterator
from typing import Final

from opensafe.client import Client
from opensafe.errors import AuditError, OpenSafeError
from opensafe.proof.escape.probe import Run

from .daemons import Daemon, Kind
from .ground import Ground

_DISK: Final = "96m"
_CHUNK: Final = 1 << 20
#: What is left of a page holds some records of so many bytes.
_LONG: Final = "a" * 3000
_TRIES: Final = 40


async def runs_unrecorded(_: Ground, kind: Kind) -> Run:
    """Fill it, and have a call run: it may not, since nobody would know of it."""
    nonce = secrets.token_hex(8)
    async with Daemon.running(kind, disk=_DISK) as daemon, daemon.client() as client:
        session = await client.create_session("full")
        sandbox = (await client.create_sandbox(session)).sandbox_id
        before = await client.run_call(session, sandbox, f"before-{nonce}", "Bash", {"command": f"echo {nonce}"})
        ran, why = b"", ""
        with _filled(daemon.state / "filler"):
            failed = await _until_full(client, session)
            try:
                said = await client.run_call(session, sandbox, f"full-{nonce}", "Bash", {"command": f"echo {nonce}"})
                ran, why = said.stdout, f"{said.outcome.kind}, {said.outcome.detail}"
            except OpenSafeError as error:
                why = error.message
            recorded = any(f'"call_id":"full-{nonce}"'.encode() in line for line in daemon.audit_lines())
    return Run(
        began=nonce.encode() in before.stdout,
        finished=True,
        found="a call ran that is on no record" if nonce.encode() in ran and not recorded else "",
        layer=why,
        hints=(failed,),
    )


@contextlib.contextmanager
def _filled(path: pathlib.Path) -> Iterator[None]:
    """A file that takes all that the disk has left, meanwhile: a daemon that ends has something to write."""
    try:
        with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(_CHUNK))
        yield
    finally:
        path.unlink()


async def _until_full(client: Client, session: str) -> str:
    """Use up what is left of the log's last page; why no more was taken."""
    for _ in range(_TRIES):
        try:
            await client.decide(session, "Bash", {"command": f"echo {_LONG}"})
        except AuditError as error:
            return error.message
    return ""
