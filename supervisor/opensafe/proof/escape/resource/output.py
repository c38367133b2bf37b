"""Rows about what a guest prints: without an end, and made to be taken for something else."""

import contextlib
import pathlib
import secrets
import subprocess
import sys
from typing import Final

import msgspec

from opensafe.audit.verify import verify_state
from opensafe.client import Client, Started
from opensafe.client import Ended as EndedEvent
from opensafe.proof.escape.probe import Run
from opensafe.proof.planting import plant

from . import counters
from .daemons import Daemon, Kind
from .ground import Ground

#: By how much the front may grow, and its log and traces together.
_RESIDENT: Final = 40 << 20
_WRITTEN: Final = 1 << 20
_KEPT: Final = 32 << 20
#: One line of so many bytes.
_LINE: Final = 16 << 20
_HOSTILE: Final = """
import sys
out = sys.stdout.buffer
out.write(b"x" * {line})
out.write(bytes(4096) + b"\\x1b]0;{nonce}\\x07\\x1b[2J\\x1b[1;1H\\r\\b" * 64 + bytes(range(128, 256)) * 64)
for line in {forged}:
    out.write(b"\\n" + line + b"\\n")
"""


async def endless(ground: Ground, kind: Kind) -> Run:
    """RS-10: output without an end, once to a client that reads it and once to nobody."""
    daemon, nonce = await ground.daemon(kind), secrets.token_hex(8)
    command = {"command": f"yes {nonce}"}
    async with ground.memory, daemon.sandbox() as (client, session, sandbox):
        front = daemon.front
        resident, written = counters.begin_peak(front), _size(daemon.written())
        read = await client.run_call(session, sandbox, f"read-{nonce}", "Bash", command, keep=1 << 16)
        unread = await _unread(client, session, sandbox, f"unread-{nonce}", command)
        grown = counters.peak(front) - resident
        logged = _size(daemon.written()) - written
    more = f"{grown >> 20} MiB resident and {logged >> 10} KiB written more for {read.outcome.stdout_bytes >> 20} MiB"
    return Run(
        began=nonce.encode() in read.stdout,
        finished=bool(unread),
        found=more if grown > _RESIDENT or logged > _WRITTEN else "",
        layer=f"the output's window: {more}; {read.outcome.kind}, {read.outcome.detail}",
    )


async def forged(ground: Ground, kind: Kind) -> Run:
    """RS-11: a line that does not end, control characters, and records as our own logs have them."""
    daemon, nonce = await ground.daemon(kind), secrets.token_hex(8)
    lines = (
        f"timestamp=2026-01-01T00:00:00Z level=info event={nonce}".encode(),
        msgspec.json.encode({"kind": "decision", "decision_id": nonce}),
    )
    program = _HOSTILE.format(line=_LINE, nonce=nonce, forged=lines).encode()
    async with ground.memory, daemon.sandbox() as (client, session, sandbox):
        front = daemon.front
        await plant(client.files(session, sandbox), "/workspace/hostile.py", program)
        command = {"command": "python3 /workspace/hostile.py"}
        said = await client.run_call(session, sandbox, f"forged-{nonce}", "Bash", command, keep=_KEPT)
        after = await client.run_call(session, sandbox, f"after-{nonce}", "Bash", {"command": "echo on"})
        found = [
            *_forgeries(daemon, lines),
            *(["the front did not survive it"] if daemon.front != front else []),
            *(["the call after it failed"] if after.stdout != b"on\n" else []),
            *(["the output did not arrive as it was"] if said.stdout != _expected(program) else []),
        ]
    return Run(
        began=bool(said.stdout),
        finished=said.outcome.exit_code == 0 or bool(found),
        found="; ".join(found),
        layer=f"bytes as bytes: {len(said.stdout)} came as they were, none stands in a log",
        hints=(f"{said.verdict.action}", f"{said.outcome.kind}, {said.outcome.detail}"),
    )


async def _unread(client: Client, session: str, sandbox: str, call_id: str, command: dict[str, str]) -> str:
    """How a call ended that nobody listened to."""
    call = client.call(session, sandbox, call_id, "Bash", command, background=True)
    async with contextlib.aclosing(call):
        async for event in call:
            if isinstance(event, Started):
                break
    async with contextlib.aclosing(client.attach(session, call_id)) as events:
        async for heard in events:
            if isinstance(heard, EndedEvent):
                return str(heard.outcome.kind)
    return ""


def _forgeries(daemon: Daemon, forged: tuple[bytes, ...]) -> list[str]:
    """What stands in a log of ours as if we had written it."""
    found = []
    for path in daemon.written():
        lines = path.read_bytes().splitlines()
        if any(line.startswith(forged) for line in lines):
            found.append(f"{path.name} has a line that the guest wrote")
        if any(b"\x1b" in line or b"\0" in line for line in lines):
            found.append(f"{path.name} has control characters that the guest wrote")
    if any(line.startswith(forged) for line in daemon.audit_lines()):
        found.append("the audit log has a record that the guest wrote")
    if not (verified := verify_state(daemon.state)).ok:
        found.append(f"the audit log does not verify: {verified.findings}")
    return found


def _expected(program: bytes) -> bytes:
    """What it prints, as this host's Python does."""
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, check=True)
    return done.stdout


def _size(files: list[pathlib.Path]) -> int:
    return sum(file.stat().st_size for file in files)
