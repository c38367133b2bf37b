"""A log that a daemon has written and signed, what was kept of it elsewhere, and copies to be tampered with."""

import asyncio
import contextlib
import pathlib
from collections.abc import Sequence
from typing import Final

from opensafe.errors import OpenSafeError
from opensafe.proof.escape.host import nonce

from .site import Site

_CALLS: Final = ("echo one", "cat /etc/shadow", "echo two", "ls /workspace")
_QUERIES: Final = 3
_SEGMENT: Final = "audit/segment-000000.jsonl"
_LEDGER: Final = "ledger.jsonl"
_SIGNED: Final = ("audit/checkpoint", "audit/checkpoints.jsonl", "audit/key.pub")


class History:
    """A directory of copies. log, ledger: lines as the daemon wrote them; note, key: kept elsewhere at the end."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self._copies = 0
        self.log: list[bytes] = []
        self.ledger: list[bytes] = []
        self.note = b""
        self.key = str(directory / "key.pub")
        self._beside: dict[str, bytes] = {}

    async def live(self, site: Site) -> None:
        """Let the daemon judge calls, stop it, which signs all that it wrote, and take the copy. What the ledger knows
        nothing of stands last.
        """
        async with site.client() as client:
            session = await client.create_session(nonce())
            sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id
            for number, command in enumerate(_CALLS):
                with contextlib.suppress(OpenSafeError):
                    await client.run_call(session, sandbox, f"call-{number}", "Bash", {"command": command})
            await client.delete_sandbox(sandbox)
            for _ in range(_QUERIES):
                await client.decide(session, "Bash", {"command": "ls"})
        await asyncio.to_thread(site.daemon.stop)
        self._take(site)

    def _take(self, site: Site) -> None:
        self._beside = {name: (site.state / name).read_bytes() for name in _SIGNED}
        self.ledger = site.daemon.ledger_lines()
        self.log = list(site.daemon.audit_lines())
        self.note = self._beside["audit/checkpoint"]
        pathlib.Path(self.key).write_bytes(self._beside["audit/key.pub"])

    def copy(self, log: Sequence[bytes] | None, ledger: Sequence[bytes], *, signed: bool) -> str:
        """A state directory with these lines. log: None for no file. signed: with the checkpoints beside it."""
        self._copies += 1
        state = self._directory / f"copy-{self._copies}"
        (state / "audit").mkdir(parents=True)
        if log is not None:
            (state / _SEGMENT).write_bytes(b"".join(line + b"\n" for line in log))
        (state / _LEDGER).write_bytes(b"".join(line + b"\n" for line in ledger))
        for name, data in self._beside.items() if signed else ():
            (state / name).write_bytes(data)
        return str(state)
