"""`opensafe bench stress`: very many sandboxes, used and killed in every way, and what is left of them.

A daemon of its own, with a warm pool. Several workers make sandboxes by numbers, do with each what its plan says
(plan.py), and kill what the plan names: the client of a call, a sentry, a gofer, the front, the helper, or the whole
daemon, which is then started again. Whatever happens is counted by how it was told; what the client was never told,
or told wrongly, is an error of the run.
"""

import asyncio
import collections
import contextlib
import itertools
import os
import pathlib
import signal
import time
from collections.abc import Iterator
from typing import Final

import msgspec

from opensafe.client import Client, Ended, Lease, Started
from opensafe.errors import NotFound, OpenSafeError
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.proof.private import DaemonFailedError, PrivateDaemon
from opensafe.warden.sandbox.limits import Hierarchies

from .plan import Plan, Step, draw

_PRINCIPAL: Final = "stress"
#: Sandboxes kept ready; a create with the default limits gets one.
_READY: Final = 2
_LEASE_S: Final = 5
#: No answer within this time is an error of the run: nothing here takes a minute.
_PATIENCE_S: Final = 120.0
_BACK_PAUSE_S: Final = 0.1
_HELD: Final = "sleep 1000"
_COMMANDS: Final[dict[Step, dict[str, object]]] = {
    "exit": {"command": "echo well"},
    "fail": {"command": "exit 3"},
    "deadline": {"command": _HELD, "timeout_ms": 100},
    "flood": {"command": "head -c 3000000 /dev/zero"},
}
_WANTED: Final = {
    "exit": (OutcomeKind.EXITED, 0),
    "fail": (OutcomeKind.EXITED, 3),
    "deadline": (OutcomeKind.DEADLINE, None),
    "flood": (OutcomeKind.EXITED, 0),
}


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Counts: creations and calls by how they were answered, kills by victim. noticed_ms: from the death of a sentry
    or gofer to the typed end of the call under way, in order. wrong: what must not be, in words. left: sandboxes
    that the daemon still showed after all were deleted.
    """

    seconds: float
    creations: dict[str, int]
    calls: dict[str, int]
    kills: dict[str, int]
    noticed_ms: tuple[float, ...]
    wrong: tuple[str, ...]
    left: int


def daemon() -> PrivateDaemon:
    """The daemon to run it on."""
    pool = f'[[pool]]\nprincipal = "{_PRINCIPAL}"\nready = {_READY}\n'
    return PrivateDaemon("stress", {_PRINCIPAL: ("developer",)}, more=pool)


async def run(on: PrivateDaemon, creates: int, seed: int, workers: int) -> Measured:
    """Make `creates` sandboxes. Raises OpenSafeError where the daemon does not come back."""
    stress = _Stress(on, seed)
    begun = time.monotonic()
    numbers = iter(range(creates))
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(stress.work(numbers))
    left = await stress.remove_all()
    return Measured(
        seconds=round(time.monotonic() - begun, 1),
        creations=dict(stress.creations.most_common()),
        calls=dict(stress.calls.most_common()),
        kills=dict(stress.kills.most_common()),
        noticed_ms=tuple(sorted(stress.noticed_ms)),
        wrong=tuple(stress.wrong),
        left=left,
    )


class _Stress:
    def __init__(self, on: PrivateDaemon, seed: int) -> None:
        self._daemon = on
        self._seed = seed
        self._restarting = asyncio.Lock()
        self._calls = itertools.count()
        self.creations: collections.Counter[str] = collections.Counter()
        self.calls: collections.Counter[str] = collections.Counter()
        self.kills: collections.Counter[str] = collections.Counter()
        self.noticed_ms: list[float] = []
        self.wrong: list[str] = []

    async def work(self, numbers: Iterator[int]) -> None:
        """One worker: a session, and a sandbox after the other. The numbers are shared with the other workers."""
        async with Client.connect(self._daemon.socket_of(_PRINCIPAL)) as client:
            session = ""
            for number in numbers:
                try:
                    async with asyncio.timeout(_PATIENCE_S):
                        session = session or await self._session(client)
                        await self._one(client, session, draw(self._seed, number))
                except NotFound:
                    session = ""  # the record of it was not on disk when the daemon was killed
                except TimeoutError:
                    self.wrong.append(f"number {number} was not through after {_PATIENCE_S:.0f} s")

    async def _session(self, client: Client) -> str:
        while True:
            try:
                return await client.create_session(_PRINCIPAL)
            except OpenSafeError as error:
                self.creations[f"session: {error.reason}"] += 1
                await self._back(client)

    async def _one(self, client: Client, session: str, plan: Plan) -> None:
        killing = None
        if not plan.steps and plan.victim in ("front", "helper", "daemon"):
            killing = asyncio.create_task(self._kill_later(plan))  # while it is made
        lease = Lease(ttl_s=_LEASE_S) if plan.ending == "lease" else Lease()
        try:
            made = await client.create_sandbox(session, lease=lease)
        except OpenSafeError as error:
            self.creations[error.reason] += 1
            await self._back(client)
            return
        finally:
            if killing is not None:
                await killing
        self.creations["made"] += 1
        sandbox = made.sandbox.sandbox_id
        for step in plan.steps:
            await self._step(client, session, sandbox, step, plan)
        if plan.victim and killing is None:
            await self._kill_under_call(client, session, sandbox, plan)
        if plan.ending != "lease":
            await self._delete(client, sandbox, wait=plan.ending == "delete")

    async def _step(self, client: Client, session: str, sandbox: str, step: Step, plan: Plan) -> None:
        call_id = f"call-{next(self._calls)}"
        try:
            match step:
                case "pause":
                    await client.pause_sandbox(sandbox)
                    await client.resume_sandbox(sandbox)
                case "pause_under_call":
                    async for _ in client.call(session, sandbox, call_id, "Bash", {"command": _HELD}, background=True):
                        pass  # until it has started
                    await client.pause_sandbox(sandbox)
                    await client.resume_sandbox(sandbox)
                case "cancel":
                    async with contextlib.aclosing(
                        client.call(session, sandbox, call_id, "Bash", {"command": _HELD})
                    ) as call:
                        async for event in call:
                            if isinstance(event, Started):
                                break
                case _:
                    done = await client.run_call(session, sandbox, call_id, "Bash", _COMMANDS[step])
                    self._told(step, done.outcome, plan)
                    return
        except OpenSafeError as error:
            self.calls[f"{step}: {error.reason}"] += 1
            await self._back(client)
        else:
            self.calls[step] += 1

    def _told(self, step: str, outcome: Outcome, plan: Plan) -> None:
        self.calls[_name(outcome)] += 1
        wanted = _WANTED.get(step)
        if outcome.kind is OutcomeKind.EXITED and wanted is not None and (outcome.kind, outcome.exit_code) != wanted:
            self.wrong.append(f"number {plan.number}: {step} was told as {_name(outcome)} {outcome.exit_code}")

    async def _kill_under_call(self, client: Client, session: str, sandbox: str, plan: Plan) -> None:
        """Start a call that does not end, kill, and see what is told of the call."""
        call_id = f"call-{next(self._calls)}"
        killed = 0.0
        try:
            async with Client.connect(self._daemon.socket_of(_PRINCIPAL)) as other:
                call = other.call(session, sandbox, call_id, "Bash", {"command": _HELD})
                async for event in call:
                    if isinstance(event, Started):
                        await asyncio.sleep(plan.at_s)
                        killed = time.monotonic()
                        if plan.victim == "client" or not await self._kill(plan, sandbox):
                            break  # the call would go on, but its connection ends here
                    if isinstance(event, Ended):
                        self._told_of_killed(event.outcome, plan, killed)
        except OpenSafeError as error:
            self.calls[f"{plan.victim} killed: {error.reason}"] += 1
            await self._back(client)
            await self._know_end(client, session, sandbox, call_id, plan)
            return
        if plan.victim == "client":
            self.kills["client"] += 1

    def _told_of_killed(self, outcome: Outcome, plan: Plan, killed: float) -> None:
        self.calls[_name(outcome)] += 1
        if not killed:
            return
        if plan.victim in ("sentry", "gofer"):
            self.noticed_ms.append(round((time.monotonic() - killed) * 1e3, 1))
        if outcome.kind in (OutcomeKind.EXITED, OutcomeKind.SIGNALLED):
            self.wrong.append(f"number {plan.number}: a call whose {plan.victim} was killed was told as {outcome.kind}")

    async def _know_end(self, client: Client, session: str, sandbox: str, call_id: str, plan: Plan) -> None:
        """A call that was cut off: asked for again it does not run again, and has one end."""
        try:
            known = await client.run_call(session, sandbox, call_id, "Bash", {"command": "sleep 1000"})
        except OpenSafeError as error:  # never decided, and its sandbox is gone
            self.calls[f"again: {error.reason}"] += 1
        else:
            self.calls[f"again: {_name(known.outcome)}"] += 1
            if known.outcome.kind not in (OutcomeKind.LOST, OutcomeKind.CANCELLED, OutcomeKind.DEADLINE):
                self.wrong.append(f"number {plan.number}: after a death {call_id} is told as {_name(known.outcome)}")

    async def _delete(self, client: Client, sandbox: str, *, wait: bool) -> None:
        while True:
            try:
                await client.delete_sandbox(sandbox, wait=wait)
            except NotFound:
                return
            except OpenSafeError as error:
                self.calls[f"delete: {error.reason}"] += 1
                await self._back(client)
            else:
                return

    # ── killing ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _kill_later(self, plan: Plan) -> None:
        await asyncio.sleep(plan.at_s)
        await self._kill(plan, "")

    async def _kill(self, plan: Plan, sandbox: str) -> bool:
        """Kill the plan's victim; whether that ends a call of the sandbox. What has just died is no victim."""
        if plan.victim == "daemon":
            await self._restart()
        else:
            try:
                pid = self._pid_of(plan.victim, sandbox)
                os.kill(pid, signal.SIGKILL)
            except (LookupError, ProcessLookupError, DaemonFailedError):
                self.kills[f"{plan.victim}: gone already"] += 1
                return False
        self.kills[plan.victim] += 1
        return plan.victim != "helper"

    async def _restart(self) -> None:
        async with self._restarting:
            await asyncio.to_thread(self._daemon.kill)
            await asyncio.to_thread(self._daemon.start)

    def _pid_of(self, victim: str, sandbox: str) -> int:
        if victim in ("front", "helper"):
            return self._daemon.child(victim)
        wanted = {"sentry": b"runsc-sandbox", "gofer": b"runsc-gofer"}[victim]
        instance = (self._daemon.state / "instance").read_text()
        for pid in Hierarchies.find(instance).group(self._container(sandbox)).pids():
            with contextlib.suppress(OSError):
                if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] == wanted:
                    return pid
        raise LookupError(victim)

    def _container(self, sandbox: str) -> str:
        """Its id on the host, which is another one where it was claimed from the pool."""
        for line in reversed(self._daemon.ledger_lines()):
            if sandbox.encode() in line and b'"kind":"claim"' in line:
                return str(msgspec.json.decode(line)["cell"])
        return sandbox

    async def _back(self, client: Client) -> None:
        """Until the daemon answers again."""
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                try:
                    if await client.health():
                        return
                except OpenSafeError:
                    pass
                await asyncio.sleep(_BACK_PAUSE_S)

    async def remove_all(self) -> int:
        """Delete what there still is; how many sandboxes stay nevertheless."""
        async with Client.connect(self._daemon.socket_of(_PRINCIPAL)) as client:
            await self._back(client)
            for row in await client.list_sandboxes():
                await self._delete(client, row.sandbox_id, wait=True)
            return len(await client.list_sandboxes())


def _name(outcome: Outcome) -> str:
    """Its kind; of one that was lost with the cause, without what differs each time."""
    if outcome.kind is not OutcomeKind.LOST:
        return str(outcome.kind)
    return f"lost ({outcome.detail.partition(';')[0].partition(':')[0][:60]})"
