"""Daemons of the suite's own, which their clients may flood, and what the host sees of one without asking it."""

import contextlib
import enum
import pathlib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final, Self

import msgspec

from opensafe.client import Client, SandboxSize
from opensafe.proof import mutants, posture, private
from opensafe.proof.escape.ground import begun, boxed
from opensafe.warden.sandbox.control import ControlDriver
from opensafe.warden.sandbox.layout import Layout
from opensafe.warden.sandbox.limits import Cgroup, Hierarchies

from . import weak
from .small import mounted

#: Caps that a probe reaches within a second.
SANDBOXES: Final = 8
SESSIONS: Final = 24
CALLS: Final = 12
#: Whose sessions are counted.
FLOODER: Final = "flooder"

_CAPS: Final = f"[caps]\nsandboxes = {SANDBOXES}\nsessions_per_principal = {SESSIONS}\nrunning_calls = {CALLS}\n"
#: A call's content goes to as many places as it can.
_TELEMETRY: Final = "[telemetry]\ncapture_content = true\n"
_SMALL: Final = SandboxSize(memory_bytes=192 << 20)
_ROLES: Final = {"default": ("developer",), FLOODER: ("developer",), "auditor": ("auditor",)}


class Kind(enum.StrEnum):
    """As it is shipped; without the front's checks, behind which the warden's stand; without both; and with a warden
    that starts what is on no record.
    """

    SHIPPED = "shipped"
    FRONT_OPEN = "front open"
    WEAK = "weak"
    RECORDLESS = "recordless"


_MUTANTS: Final[Mapping[Kind, tuple[mutants.Mutant, ...]]] = {
    Kind.SHIPPED: (),
    Kind.FRONT_OPEN: weak.FRONT,
    Kind.WEAK: (*weak.FRONT, *weak.WARDEN),
    Kind.RECORDLESS: (*weak.FRONT, *weak.WARDEN, *weak.RECORDLESS),
}


class Daemon(private.PrivateDaemon):
    """One of them. source: where its package is, if not here."""

    source: pathlib.Path | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def running(
        cls,
        kind: Kind,
        *,
        disk: str = "",
        more: str = "",
        bundle: pathlib.Path | None = None,
        key: pathlib.Path | None = None,
    ) -> AsyncIterator[Self]:
        """Start it, and remove it with all it made. disk: the size of a file system of its own for its state.

        The others are as PrivateDaemon has them.
        """
        with contextlib.ExitStack() as stack:
            faults = _MUTANTS[kind]
            source = stack.enter_context(mutants.planted(*faults)) if faults else None
            daemon = cls("resource", _ROLES, more=_CAPS + _TELEMETRY + more, bundle=bundle, key=key, source=source)
            daemon.source = source
            stack.callback(daemon.remove)
            if disk:
                stack.enter_context(mounted(daemon.state, size=disk))
            async with begun(daemon):
                yield daemon

    def client(self, principal: str = "default") -> contextlib.AbstractAsyncContextManager[Client]:
        """A client of one of its principals."""
        return Client.connect(self.socket_of(principal))

    @contextlib.asynccontextmanager
    async def sandbox(self, size: SandboxSize = _SMALL) -> AsyncIterator[tuple[Client, str, str]]:
        """A client, a session and a sandbox of its own; gone afterwards, whatever still runs in it."""
        async with self.client() as client, boxed(client, "resource", size=size) as (session, sandbox):
            yield client, session, sandbox

    @property
    def front(self) -> int:
        """The process that clients talk to."""
        return self.child("front")

    async def processes(self, sandbox: str) -> list[str]:
        """Names of the guest's processes, as its sentry tells them."""
        listed = await ControlDriver(Layout.of(self.paths)).processes(sandbox)
        return [one.name for one in listed]

    def sandboxes(self) -> int:
        """Groups of sandboxes on the host."""
        return len(self._hierarchies.present())

    def group(self, sandbox: str) -> Cgroup:
        """The host's group around one."""
        return self._hierarchies.group(sandbox)

    def bundle(self, sandbox: str) -> pathlib.Path:
        """What it has of the host for itself."""
        return Layout.of(self.paths).bundle(sandbox)

    def envoy(self) -> int:
        """Process id of its Envoy. Raises ProcessLookupError."""
        for pid in (pid for pid, parent in posture.parents().items() if parent == self.pid):
            with contextlib.suppress(OSError):
                if pathlib.Path(f"/proc/{pid}/exe").readlink().name == "envoy":
                    return pid
        raise ProcessLookupError("no Envoy of this daemon runs")

    @property
    def _hierarchies(self) -> Hierarchies:
        return Hierarchies.find((self.state / "instance").read_text())

    def records(self, kind: str) -> Iterator[dict[str, Any]]:
        """Its records of a kind."""
        for line in self.audit_lines():
            if f'"kind":"{kind}"'.encode() in line:
                yield msgspec.json.decode(line)

    def written(self) -> list[pathlib.Path]:
        """Files that grow with what it is asked, but for the audit log: its own log and traces."""
        return [self.log, *self.state.rglob("traces*.jsonl")]
