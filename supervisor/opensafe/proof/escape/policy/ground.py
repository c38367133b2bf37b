"""What the rows stand on: daemons, each with the shipped rules, started when first needed; and a sandbox a row.

The bundle differs from the shipped one in what a site sets: the ceiling of denials, which a probe meets at once and
honest work never, and a tool of an MCP server.
"""

import contextlib
import json
import os
import pathlib
import secrets
import tempfile
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Final, Self

import msgspec

from opensafe.client import CallResult, Client
from opensafe.errors import FileError, OpenSafeError
from opensafe.proof import private
from opensafe.proof.escape import wire
from opensafe.proof.escape.ground import boxed, daemon
from opensafe.proof.escape.keeping import Keeping
from opensafe.proof.mutants import planted
from opensafe.proof.private import PrivateDaemon
from opensafe.proof.signed import SignedBundles

from .bundles import members
from .shot import WORKSPACE, Shot
from .weak import DAEMONS

#: How long a parked call waits where its expiry is tried, seconds.
BRIEF_S: Final = 1
_CALL_S: Final = 60.0
_ROLES: Final = {"default": ("developer",), "other": ("developer",), "reviewer": ("reviewer",)}
_MORE: Final = """
[caps]
parked_reviews = 4096
refusals_per_s = 1000
sessions_per_principal = 256
[telemetry]
capture_content = true
"""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A shot, its marker's name, and what came of it as the daemon told it: what it gave out, or why it was refused.

    before: the ids of the calls that went before it.
    """

    shot: Shot
    name: str
    call_id: str
    before: tuple[str, ...] = ()
    output: bytes = b""
    refused: str = ""


class Post:
    """One daemon with its clients."""

    def __init__(self, of: PrivateDaemon, clients: Mapping[str, Client]) -> None:
        self.daemon = of
        self.clients = clients
        self.client = clients["default"]

    @contextlib.asynccontextmanager
    async def box(self, agent: str, principal: str = "default") -> AsyncIterator["Box"]:
        """A session with a sandbox; closed afterwards, so that nothing of it stays parked."""
        client = self.clients[principal]
        async with boxed(client, agent) as (session, sandbox):
            yield Box(self, client, session, sandbox)

    async def wire(self, message: bytes) -> None:
        """Send the bytes of an ExecRequest, whatever they are, and hear the call to its end. Raises OpenSafeError."""
        async with wire.Channel(self.daemon.socket_of("default")) as channel:
            reply = await channel.ask(f"{wire.EXEC}Exec", message, within_s=_CALL_S)
        if reply.code != "OK":
            raise OpenSafeError(f"{reply.code}: {reply.details}")

    def records(self, session: str) -> list[dict[str, Any]]:
        """What stands of a session in the audit log, read from the disk."""
        lines = (line for line in self.daemon.audit_lines() if session.encode() in line)
        return [record for record in map(json.loads, lines) if record.get("session_id") == session]

    def ledger(self) -> list[dict[str, Any]]:
        """What the warden started, by its own record."""
        return [json.loads(line) for line in self.daemon.ledger_lines()]


class Box:
    """One sandbox, what is sent to it, and what it holds as seen through the file API."""

    def __init__(self, post: Post, client: Client, session: str, sandbox: str) -> None:
        self.post = post
        self.client = client
        self.session = session
        self.sandbox = sandbox
        self.nonce = "n" + secrets.token_hex(6)
        self._sent = 0

    def name(self) -> str:
        """A marker's name that nothing else has."""
        self._sent += 1
        return f"{self.nonce}-{self._sent:03d}"

    async def put(self, files: Mapping[str, str]) -> None:
        """Write files, and the directories that they lie in."""
        for path, text in files.items():
            parent = path.rpartition("/")[0]
            if parent != WORKSPACE:
                await self.require("Mkdir", {"path": parent, "parents": True})
            await self.require("Write", {"path": path, "content": text})

    async def require(self, tool: str, arguments: Mapping[str, Any]) -> CallResult:
        """A call that has to succeed. Raises OpenSafeError."""
        result = await self.run(tool, arguments)
        if result.outcome.exit_code != 0:
            raise OpenSafeError(f"{tool} of the suite's own failed: {result.outcome.kind}", value=arguments)
        return result

    async def run(self, tool: str, arguments: Mapping[str, Any], call_id: str = "") -> CallResult:
        """One call."""
        return await self.client.run_call(
            self.session, self.sandbox, call_id or f"c-{secrets.token_hex(6)}", tool, arguments
        )

    async def fire(self, shot: Shot) -> Tried:
        """Plant what the shot needs, send what goes before it, and send it."""
        name = self.name()
        filled = shot.filled(name)
        await self.put(filled.plants)
        earlier = tuple(f"before-{name}-{number}" for number, _ in enumerate(filled.before))
        for before, before_id in zip(filled.before, earlier, strict=True):
            await self.run(before.tool, before.arguments, before_id)
        call_id = f"shot-{name}"
        output = b""
        try:
            if filled.text or filled.tail:
                await self.post.wire(self._message(filled, call_id))
            else:
                output = (await self.run(filled.tool, filled.arguments, call_id)).stdout
        except OpenSafeError as error:
            return Tried(shot=filled, name=name, call_id=call_id, before=earlier, refused=str(error))
        return Tried(shot=filled, name=name, call_id=call_id, before=earlier, output=output)

    def _message(self, shot: Shot, call_id: str) -> bytes:
        """ExecRequest.start with the first five fields of StartCall, all of them texts, and the shot's tail."""
        text = shot.text.encode(errors="surrogateescape") or msgspec.json.encode(shot.arguments)
        start = wire.message(f1=self.session, f2=self.sandbox, f3=call_id, f4=shot.tool, f5=text)
        return wire.message(f1=start + shot.tail)

    async def names(self) -> frozenset[str]:
        """The names in the workspace."""
        files = self.client.files(self.session, self.sandbox)
        return frozenset([os.fsdecode(entry.name) async for entry in files.entries(WORKSPACE)])

    async def text(self, path: str) -> str:
        """What a file holds, "" where it is none."""
        with contextlib.suppress(FileError):
            data = await self.client.files(self.session, self.sandbox).read_bytes(path)
            return data.decode(errors="replace")
        return ""


class Ground:
    """All daemons of a run."""

    def __init__(self, bundles: SignedBundles, keeping: Keeping) -> None:
        self._bundles = bundles
        self._kept = keeping.kept

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls) -> AsyncIterator[Self]:
        """None runs yet; all that do are ended at last."""
        with tempfile.TemporaryDirectory(prefix="opensafe-escape-") as place:
            bundles = SignedBundles(pathlib.Path(place), pathlib.Path(private.programs().bundle))
            bundles.put(bundles.next(members(bundles))[0])
            async with Keeping.open() as keeping:
                yield cls(bundles, keeping)

    async def post(self, name: str = "") -> Post:
        """The daemon of that name in weak.DAEMONS, "" for the one as shipped."""
        return await self._kept(name, partial(self._begun, name))

    @contextlib.asynccontextmanager
    async def _begun(self, name: str) -> AsyncIterator[Post]:
        more = _MORE.replace("[caps]", f"[caps]\nreview_ttl_s = {BRIEF_S}") if name == "faulty" else _MORE
        async with contextlib.AsyncExitStack() as stack:
            source = stack.enter_context(planted(*DAEMONS[name])) if DAEMONS[name] else None
            made = daemon("evade", self._bundles, roles=_ROLES, more=more, source=source)
            begun = await stack.enter_async_context(made)
            connected = {role: Client.connect(begun.socket_of(role)) for role in _ROLES}
            yield Post(begun, {role: await stack.enter_async_context(one) for role, one in connected.items()})
