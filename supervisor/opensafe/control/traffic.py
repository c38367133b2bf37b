"""The way out as people see it: what is open, what each host was used for, and whether a host would be reached.

What is open and used only the egress helper knows, so it is asked each time, and where there is no helper there is no
answer: an old one would look like a live one. Names come from guests; what is shown is bounded.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

import msgspec

from opensafe.config import EgressSettings
from opensafe.egress.explaining import SERVED, Explainer, supposed
from opensafe.errors import InvalidArgument, NotFound
from opensafe.model.calls import Principal
from opensafe.model.facts import HostFact
from opensafe.model.ids import now_us
from opensafe.model.reach import Obstacle, Reach
from opensafe.model.traffic import HostCount, Layer, OpenConnection, Sight, Standing, What
from opensafe.model.usage import Limits, Usage
from opensafe.normalize.urls import parse_host
from opensafe.state.recent import Recent
from opensafe.state.rows import SandboxRow, SessionRow
from opensafe.state.store import Store
from opensafe.warden.client import WardenClient

from .history import History
from .judge import Judge

#: Roles that see every principal's sandboxes, as they see their reviews, bans or records.
_STAFF: Final = frozenset({"auditor", "operator", "reviewer"})
#: Rows of one answer.
MOST: Final = 1000
#: Sandboxes of one question to the helper.
_ASKED: Final = 64
_TEXT: Final = 300
_LIST: Final = "`opensafe sandbox list` shows yours."
_PORTS: Final = "egress.port.allowlist"
_Row = TypeVar("_Row")
_OFF: Final = "Set `enabled = true` in the section [egress] of the configuration, and restart the daemon."


class Page(msgspec.Struct, Generic[_Row], frozen=True, kw_only=True):
    """Rows, the principals of their sandboxes by id, and how many rows more there are."""

    rows: list[_Row]
    whose: Mapping[str, str]
    more: int


class Traffic:
    """Asks helper and policy; keeps nothing."""

    def __init__(
        self, judge: Judge, store: Store, history: History, warden: WardenClient, settings: EgressSettings
    ) -> None:
        self._judge = judge
        self._store = store
        self._history = history
        self._warden = warden
        self._enabled = settings.enabled
        self._explainer = Explainer.of(settings)

    async def connections(self, principal: Principal, sandbox_id: str = "") -> Page[OpenConnection]:
        """What is open, oldest first. Raises NotFound (no such sandbox, or sandboxes have no way out), Unavailable."""
        whose = self._visible(principal, sandbox_id)
        found = [
            one
            async for sight in self._seen("connections", whose)
            for one in sight.connections
            if one.sandbox_id in whose
        ]
        found.sort(key=lambda one: one.since_us)
        return Page(rows=found[:MOST], whose=whose, more=len(found[MOST:]))

    async def hosts(self, principal: Principal, sandbox_id: str = "") -> Page[HostCount]:
        """What hosts were used for, by sandbox, most bytes first. Raises likewise."""
        whose = self._visible(principal, sandbox_id)
        place = {one: number for number, one in enumerate(whose)}
        found = [one async for sight in self._seen("hosts", whose) for one in sight.hosts if one.sandbox_id in whose]
        found.sort(key=lambda one: (place[one.sandbox_id], -one.sent - one.received, -one.allowed, one.name))
        return Page(rows=found[:MOST], whose=whose, more=len(found[MOST:]))

    async def explain(self, principal: Principal, text: str, sandbox_id: str = "") -> Reach:
        """Whether a sandbox reaches the host `text` (NAME or NAME:PORT), and why.

        With sandbox_id as things stand there now, else as if a call of the principal's that was granted the name ran.
        Raises InvalidArgument (not one host), NotFound, Unavailable.
        """
        host, port = _host(text, self._judge)
        row = self._one(principal, sandbox_id) if sandbox_id else None
        standing, layers = None, self._supposed(principal, host.name, port)
        obstacles = [*self._of_daemon(), *_of_port(layers)]
        if row is not None and self._enabled:
            sight = await self._warden.look_out("standing", (sandbox_id,), host=host.name, port=port)
            standing = sight.standing or Standing(sandbox_id=sandbox_id)
            layers = standing.layers
            obstacles += [*self._of_helper(standing.bundle), *_of_sandbox(row, standing)]
        elif self._enabled:
            obstacles += self._of_helper((await self._warden.status()).helper_bundle)
        named = all(one.allowed for one in layers if one.layer == "dns")
        return Reach(
            name=host.name,
            port=port,
            classes=tuple(sorted(name for name, holds in host.classes.items() if holds)),
            reachable=named and any(one.allowed for one in layers if one.layer != "dns") and not obstacles,
            layers=layers,
            obstacles=tuple(obstacles),
            standing=standing,
            revision=self._judge.bundle.revision,
        )

    # ── whose ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _visible(self, principal: Principal, sandbox_id: str) -> dict[str, str]:
        """Principals by sandbox id."""
        if not self._enabled:
            raise NotFound("sandboxes have no way out, so there is nothing to show", remedy=_OFF)
        if sandbox_id:
            rows = [self._one(principal, sandbox_id)]
        else:
            rows = self._store.sandboxes.live(principal="" if _STAFF & set(principal.roles) else principal.name)
        return {row.sandbox_id: row.principal for row in rows}

    def _one(self, principal: Principal, sandbox_id: str) -> SandboxRow:
        row = self._store.sandbox(sandbox_id)
        if row is None or (row.principal != principal.name and not _STAFF & set(principal.roles)):
            raise NotFound("no such sandbox", value=sandbox_id, remedy=_LIST)
        if row.state == "deleted":
            raise NotFound(f"the sandbox is deleted ({row.cause})", value=sandbox_id, remedy=_LIST)
        return row

    # ── the helper ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def _seen(self, what: What, sandbox_ids: Iterable[str]) -> AsyncIterator[Sight]:
        """Page by page."""
        left = list(sandbox_ids)
        while left:
            sight = await self._warden.look_out(what, left[:_ASKED])
            yield sight
            left = left[sight.covered :]

    # ── policy ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _supposed(self, principal: Principal, name: str, port: int | None) -> tuple[Layer, ...]:
        """As if a call ran that was granted the name, in a session that has used nothing."""
        session = SessionRow(
            session_id="",
            principal=principal.name,
            agent="",
            conversation_id="",
            trace_id="",
            created_us=now_us(),
            closed=False,
            counts={},
            recent_tools=(),
            usage=Usage(),
            limits=Limits(),
            recent=Recent(),
            taints=(),
        )
        where = supposed(principal, name, *self._history.of(session, ""))
        return self._explainer.layers(self._judge.engine, name, port, where, lambda question: question)

    # ── what stands in the way ───────────────────────────────────────────────────────────────────────────────────────

    def _of_daemon(self) -> Iterator[Obstacle]:
        if not self._enabled:
            yield Obstacle(reason="sandboxes have no way out", value="egress.enabled = false", remedy=_OFF)

    def _of_helper(self, serving: str) -> Iterator[Obstacle]:
        if not serving:
            yield Obstacle(
                reason="the egress helper judges nothing at the moment, so everything is refused",
                remedy="Repeat in a few seconds; if it lasts, the daemon's log says why.",
            )
        elif serving != self._judge.bundle.digest:
            yield Obstacle(
                reason="the egress helper judges by another bundle than the one in force",
                value=serving,
                remedy="Repeat in a few seconds: it follows the change.",
            )


def _of_port(layers: Iterable[Layer]) -> Iterator[Obstacle]:
    """layers: as policy alone has them. A port that is neither served nor listed has the rule on ports against it."""
    if any(hit.id == _PORTS for one in layers if one.layer == "tcp" for hit in one.rules):
        served = " and ".join(f"{number} ({layer})" for number, layer in SERVED.items())
        yield Obstacle(
            reason="the gateway does not serve the port",
            remedy=f"Use one that it serves: {served}, and of each endpoint that the site lists its own.",
        )


def _of_sandbox(row: SandboxRow, standing: Standing) -> Iterator[Obstacle]:
    if row.state != "running":
        yield Obstacle(reason=f"the sandbox is {row.state}", value=row.cause, remedy="Use one that runs.")
    if not standing.address:
        yield Obstacle(
            reason="the sandbox has no way out",
            value=f"network {row.network}",
            remedy="Make a sandbox with network `gateway`.",
        )
    elif not standing.call_id:
        yield _no_call(standing.programs)
    if standing.over:
        yield Obstacle(reason=standing.over)


def _no_call(programs: int) -> Obstacle:
    if programs == 0:
        return Obstacle(
            reason="no call runs in the sandbox, so no grant is open",
            remedy="Ask while a call runs that names the host; without --sandbox it is supposed that one does.",
        )
    if programs == 1:
        return Obstacle(
            reason="the running call named no host, so it was granted none",
            remedy="Name the host literally in the call that needs it.",
        )
    return Obstacle(
        reason="several calls run in the sandbox, and a grant is open only while its call is alone",
        value=str(programs),
        remedy="Let a call that needs the network run alone, or in another sandbox.",
    )


def _host(text: str, judge: Judge) -> tuple[HostFact, int | None]:
    """Raises InvalidArgument, with what would be right where that can be told."""
    host = parse_host(text, tables=judge.engine.tables)
    bare = not set("/?#@") & set(text)
    if host is not None and bare:
        return host, host.port
    likely = f"{host.name}:{host.port}" if host is not None and host.port else host.name if host is not None else ""
    raise InvalidArgument(
        "this can't be read as exactly one host" if host is None else "this is a URL, and a connection has only a host",
        value=text[:_TEXT],
        limit="NAME or NAME:PORT",
        remedy=f"Ask for {likely}."
        if likely
        else "Give a name such as docs.python.org or docs.python.org:443, and nothing else.",
    )
