"""One daemon under attack, as the host sees it: its log, the warden's ledger, its directories."""

import asyncio
import contextlib
import json
import pathlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final, Self

from opensafe.client import Client
from opensafe.proof import private
from opensafe.proof.escape import wire
from opensafe.proof.escape.ground import daemon
from opensafe.proof.signed import SignedBundles

#: Whose group the strangers are in, or are not.
AGENT: Final = ("agent", "users")
NEIGHBOUR: Final = ("neighbour", "games")
#: Who sends what nobody else would.
STRANGE: Final = ("strange", "root")
_MORE: Final = f"""
[principals.{AGENT[0]}]
group = "{AGENT[1]}"
roles = ["developer"]
[principals.{NEIGHBOUR[0]}]
group = "{NEIGHBOUR[1]}"
roles = ["developer"]
[principals.{STRANGE[0]}]
roles = ["developer"]
[service]
drain_s = 2
[audit]
checkpoint_s = 1
checkpoint_records = 4
"""
_ROLES: Final = {"reviewer": ("reviewer", "auditor", "operator")}
_EVENT_S: Final = 20.0
_LOOK_S: Final = 0.02


class Site:
    """One daemon. bundles: the policy it serves by, and its variants, signed by the key that it trusts."""

    def __init__(self, of: private.PrivateDaemon, bundles: SignedBundles) -> None:
        self.daemon = of
        self.bundles = bundles
        #: Held by who changes the bundle in place.
        self.turn = asyncio.Lock()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, source: pathlib.Path | None = None, *, begin: bool = True, more: str = ""
    ) -> AsyncIterator[Self]:
        """A daemon of this source. begin: start it. more: further sections of its settings."""
        with tempfile.TemporaryDirectory(prefix="opensafe-control-") as path:
            bundles = SignedBundles(pathlib.Path(path), pathlib.Path(private.programs().bundle))
            bundles.put(bundles.next({})[0])
            made = daemon("escape", bundles, roles=_ROLES, more=_MORE + more, source=source, begin=begin)
            async with made as begun:
                yield cls(begun, bundles)

    @property
    def state(self) -> pathlib.Path:
        """Its state directory."""
        return self.daemon.state

    @property
    def run(self) -> pathlib.Path:
        """Its run directory."""
        return self.daemon.run

    def socket(self, principal: str = AGENT[0]) -> pathlib.Path:
        """The socket of one."""
        return self.daemon.socket_of(principal)

    def client(self, principal: str = AGENT[0]) -> Client:
        """A client of one."""
        return Client.connect(self.socket(principal))

    def records(self, kind: str = "", **fields: object) -> list[dict[str, Any]]:
        """Whole records of the log that have these fields."""
        found = _records(self.daemon.audit_lines(), kind)
        return [one for one in found if all(one.get(name) == value for name, value in fields.items())]

    def ledger(self, kind: str = "") -> list[dict[str, Any]]:
        """Entries of the ledger."""
        return _records(self.daemon.ledger_lines(), kind)

    def config(self, sandbox: str) -> dict[str, Any]:
        """The OCI configuration that a sandbox runs by."""
        config: dict[str, Any] = json.loads((self.run / "bundles" / sandbox / "config.json").read_bytes())
        return config

    async def until(self, wanted: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever is asked for
        """What `wanted` returns when it is something. Raises TimeoutError."""
        async with asyncio.timeout(_EVENT_S):
            while not (found := wanted()):  # noqa: ASYNC110 - files tell nobody
                await asyncio.sleep(_LOOK_S)
        return found

    async def served(self) -> None:
        """Return when a front answers. Raises TimeoutError."""
        async with asyncio.timeout(_EVENT_S):
            while (await wire.ask(self.socket(), wire.HEALTH, b"")).code != "OK":  # noqa: ASYNC110 - a socket tells nobody
                await asyncio.sleep(_LOOK_S)

    async def settled(self, content: bytes) -> str:
        """Put a bundle in place, held by `turn`; "" once it is in force, or why it was refused, as is on record."""
        before = len(self.records("bundle"))
        self.bundles.put(content)
        record = (await self.until(lambda: self.records("bundle")[before:]))[0]
        return "" if record["state"] == "activated" else str(record.get("reason") or record["state"])


def _records(lines: Iterable[bytes], kind: str) -> list[dict[str, Any]]:
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            record = json.loads(line)
            if isinstance(record, dict) and (not kind or record.get("kind") == kind):
                found.append(record)
    return found
