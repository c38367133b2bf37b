"""Runs of tool calls against a whole daemon: its gate, its sandboxes and its way out, under the shipped rules.

What the host looks at is the same as for system calls; beside it, that a call which was not allowed was not executed,
and that nothing left the gateway but questions for names.
"""

import asyncio
import collections
import contextlib
import ipaddress
import itertools
import pathlib
import secrets
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Final, Self

import msgspec
from pyroute2 import IPRoute

from opensafe.client import CallResult, Client
from opensafe.errors import Denied, OpenSafeError, RequestError, SandboxError, Unavailable
from opensafe.model.decision import Action
from opensafe.model.outcome import NEVER_EXECUTED
from opensafe.proof.around import running
from opensafe.proof.escape.bundles import patient
from opensafe.proof.private import DaemonFailedError, PrivateDaemon
from opensafe.warden.sandbox.layout import Layout
from opensafe.warden.sandbox.limits import Hierarchies
from opensafe.warden.way_out import NAMESPACE

from . import bounds, corpus, tool_calls
from .batch import Batch, Done, Kind
from .bounds import Bounds
from .notes import TEMPORARY, Notes
from .oracles import Finding, Oracle
from .processes import Tree
from .sampling import sampled
from .site import Site
from .tool_calls import ToolCall
from .uplink import Uplink

_PRINCIPAL: Final = "campaign"
_ROLE: Final = "developer"
#: A campaign asks more, and is refused more, than honest work is: what is looked for is what gets out.
_PLENTY: Final = 1 << 40
_PATIENCE_S: Final = 60.0
_SAMPLE_S: Final = 0.5


class Planted(msgspec.Struct, frozen=True, kw_only=True):
    """A breach made on purpose. calls: made before those of each run. act: done before a sandbox's runs."""

    calls: tuple[ToolCall, ...] = ()
    act: Callable[["Gated"], Awaitable[None]] | None = None


AS_IT_IS: Final = Planted()


class Gated:
    """A daemon of the campaign's own, with a way out to nowhere. Made by `open`."""

    def __init__(self, site: Site, daemon: PrivateDaemon, uplink: Uplink) -> None:
        self._site, self._daemon, self._uplink = site, daemon, uplink
        self._layout = Layout.of(daemon.paths)
        self._hierarchies = Hierarchies.find((daemon.state / "instance").read_text())
        ports = site.listening.ports
        self._places = {
            "canary": str(site.canary.directory),
            "listener": str(site.listening.path),
            "sentinel": ports.sentinel,
            "other": ports.other,
            "port": str(ports.tcp),
        }

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, site: Site, notes: Notes | None = None) -> AsyncIterator[Self]:
        """Start it. Raises DaemonFailedError."""
        nets = f"10.{128 + secrets.randbelow(64)}"
        uplink = ipaddress.IPv4Network(f"{nets}.64.0/30")
        # Nobody answers there: what names are asked of it ends at this host.
        egress = f'[egress]\nenabled = true\nlinks = "{nets}.0.0/20"\nuplink = "{uplink}"\n'
        egress += f'synthetic = "{nets}.128.0/22"\nresolvers = ["{uplink[1]}"]\n'
        with tempfile.TemporaryDirectory(prefix="opensafe-campaign-", dir=TEMPORARY) as path:
            bundles = await asyncio.to_thread(patient, pathlib.Path(path), _plenty)
            roles = {_PRINCIPAL: (_ROLE,)}
            daemon = PrivateDaemon("campaign", roles, bundle=bundles.place, key=bundles.public, more=egress)
            if notes is not None:
                notes.add(pathlib.Path(path))
                notes.add(daemon.run)
            async with _running(daemon):
                interface = await asyncio.to_thread(_interface, str(uplink[1]))
                with Uplink.open(interface, uplink) as frames:
                    yield cls(site, daemon, frames)

    async def run(self, batch: Batch, planted: Planted = AS_IT_IS, found: dict[Finding, None] | None = None) -> Done:
        """All of a batch's runs, in one sandbox unless it ends. found: as for running.run. Raises OpenSafeError,
        TimeoutError.
        """
        return await _Running(self, batch, planted, {} if found is None else found).done()

    @property
    def site(self) -> Site:
        """The host beside it."""
        return self._site

    @property
    def places(self) -> dict[str, str]:
        """What stands for the placeholders of tool_calls.py."""
        return self._places

    @property
    def namespace(self) -> pathlib.Path:
        """The gateway's, of the network."""
        return self._layout.namespace(NAMESPACE)

    def client(self) -> Client:
        """As the principal, to be used as a context manager."""
        return Client.connect(self._daemon.socket_of(_PRINCIPAL))

    def tree(self, sandbox_id: str) -> Tree:
        """Of one of its sandboxes."""
        return Tree(self._hierarchies.group(sandbox_id), self._layout.runsc)

    def look(self) -> list[Finding]:
        """What left the gateway, and whether the daemon lives."""
        found = list(self._uplink.look())
        if self._daemon.process is None or self._daemon.process.poll() is not None:
            found.append(Finding(oracle=Oracle.DEATH, what="the daemon ended"))
        return found

    def limits(self, sandbox_id: str) -> Bounds:
        """Of one of its sandboxes."""
        return Bounds(self._hierarchies.group(sandbox_id))

    def remains(self, sandbox_id: str) -> list[Finding]:
        """What is left of one that was deleted."""
        return list(bounds.remains(self._layout, self._hierarchies, sandbox_id))


class _Running:
    def __init__(self, gated: Gated, batch: Batch, planted: Planted, found: dict[Finding, None]) -> None:
        self._gated, self._batch, self._planted, self._findings = gated, batch, planted, found
        self._rules: collections.Counter[str] = collections.Counter()
        self._tools: collections.Counter[str] = collections.Counter()
        self._lost: list[int] = []
        self._completed = 0
        self._sandboxes = 0
        self._numbers = itertools.count()

    async def done(self) -> Done:
        begun = time.monotonic()
        todo = collections.deque(self._batch.runs)
        with self._gated.site.watched(self._found):
            async with self._gated.client() as client:
                while todo:
                    async with self._session(client) as session:
                        await self._sandbox(client, session, todo)
        return Done(
            number=self._batch.number,
            kind=Kind.GATED,
            completed=self._completed,
            lost=tuple(self._lost),
            sandboxes=self._sandboxes,
            findings=tuple(self._findings),
            rules=dict(self._rules),
            tools=dict(self._tools),
            seconds=round(time.monotonic() - begun, 3),
        )

    @contextlib.asynccontextmanager
    async def _session(self, client: Client) -> AsyncIterator[str]:
        session = await client.create_session(_PRINCIPAL)
        try:
            yield session
        finally:
            with contextlib.suppress(OpenSafeError):
                await client.close_session(session)

    async def _sandbox(self, client: Client, session: str, todo: collections.deque[int]) -> None:
        """A sandbox, for as many runs as it lives."""
        gated, site = self._gated, self._gated.site
        sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id
        self._sandboxes += 1
        tree, limits = gated.tree(sandbox), gated.limits(sandbox)

        async def look() -> None:
            self._found([*tree.look(), *site.look(), *gated.look()])
            site.pids.update(tree.pids)

        try:
            await look()
            self._found(tree.begun())
            async with sampled(_SAMPLE_S, look):
                if self._planted.act is not None:
                    await self._planted.act(gated)
                while todo:
                    run = todo.popleft()
                    try:
                        async with asyncio.timeout(_PATIENCE_S):
                            await self._run(client, session, sandbox, run)
                        self._completed += 1
                    except (SandboxError, Unavailable, TimeoutError) as error:
                        self._lost.append(run)
                        what = f"{type(error).__name__}: {error}"
                        self._found([Finding(oracle=Oracle.DEATH, what=what[:300], run=run)])
                        break
            await look()
            for one in (tree.posture, tree.scan):
                self._found(await asyncio.to_thread(list, one()))
            self._found(limits.look())
            self._found(await site.heartbeat())
        finally:
            with contextlib.suppress(OpenSafeError):
                await client.delete_sandbox(sandbox)
        self._found(await asyncio.to_thread(list, site.kernel.compare()))
        self._found(gated.remains(sandbox))

    async def _run(self, client: Client, session: str, sandbox: str, run: int) -> None:
        for call in (*self._planted.calls, *self._calls(run)):
            call_id = f"run-{run}-{next(self._numbers)}"
            try:
                result = await client.run_call(session, sandbox, call_id, call.tool, call.arguments)
            except (RequestError, Denied) as error:
                self._tools[f"{call.tool}: {error.reason}"] += 1
            else:
                self._judge(run, call, result)

    def _calls(self, run: int) -> tuple[ToolCall, ...]:
        if run == self._batch.runs[0]:
            return tool_calls.reaching(self._gated.places)
        inputs = corpus.of(self._batch.corpus).tool_calls
        data = corpus.data_of(self._batch.seed, run, inputs, tool_calls.BYTES)
        return tool_calls.calls(data, self._gated.places)

    def _judge(self, run: int, call: ToolCall, result: CallResult) -> None:
        verdict, outcome = result.verdict, result.outcome
        self._tools[f"{call.tool}: {verdict.action}"] += 1
        self._rules.update(hit.id for hit in verdict.rules)
        self._found(self._gated.site.canary.heard(result.stdout, result.stderr), run)
        executed = outcome.kind not in NEVER_EXECUTED or result.stdout or result.stderr
        if verdict.action is not Action.ALLOW and executed:
            what = f"{call.tool} was {verdict.action} and yet {outcome.kind}: {dict(call.arguments)!r}"
            self._found([Finding(oracle=Oracle.POLICY, what=what[:300])], run)

    def _found(self, findings: Iterable[Finding], run: int | None = None) -> None:
        for finding in findings:
            placed = msgspec.structs.replace(finding, batch=self._batch.number, run=finding.run if run is None else run)
            self._findings[placed] = None


def _interface(address: str) -> str:
    with IPRoute() as route:
        [found] = [one for one in route.get_addr(family=socket.AF_INET) if one.get_attr("IFA_ADDRESS") == address]
        return socket.if_indextoname(found["index"])


def _plenty(settings: dict[str, Any]) -> None:
    ceilings = settings["ceilings"]
    ceilings |= {"blocks_in_ten_minutes": _PLENTY, "calls_per_minute": _PLENTY}
    for owner in ("session", "principal"):
        ceilings[owner] = dict.fromkeys(ceilings[owner], _PLENTY)


@contextlib.asynccontextmanager
async def _running(daemon: PrivateDaemon) -> AsyncIterator[None]:
    """It is ready, and nothing is left of it afterwards. Raises DaemonFailedError where one that lived can't end."""
    lived = True
    try:
        async with running(daemon):
            try:
                yield
            finally:
                lived = daemon.process is not None and daemon.process.poll() is None
    except DaemonFailedError:  # of one that died an oracle tells
        if lived:
            raise
