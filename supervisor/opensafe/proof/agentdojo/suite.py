"""Every session of AgentDojo three times: without a gate, gated with nobody to approve, gated with the approver.

The first says what attacks and tasks come to by themselves; a check of AgentDojo's that says no even there says nothing
of the gate. The daemon is one of its own, with the shipped rules and AgentDojo's tools beside the built-in ones.
"""

import asyncio
import enum
import pathlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from opensafe.client import Client
from opensafe.proof.around import running
from opensafe.proof.private import PrivateDaemon

from . import site
from .agent import SUITES, Gate, Opening, Ran, World, no_gate, session
from .approver import Approver
from .gated import opened

#: Sessions at the same time: each waits for the disk most of its time.
WIDTH: Final = 8
_ROLES: Final = {"agent": (site.ROLE,), "reviewer": ("reviewer",)}

Plan = Mapping[str, Sequence[tuple[int, int | None]]]
"""Of each suite, user's tasks with an injection or None."""


class Way(enum.StrEnum):
    """What stands before the tools. alone: the daemon, and nobody approves anything."""

    OPEN = "open"
    ALONE = "alone"
    APPROVER = "approver"


def whole(suites: Iterable[str] = SUITES) -> Plan:
    """Every task alone, and with every injection of its suite."""
    return {name: tuple(World(name).plan()) for name in suites}


def planned(plan: Plan) -> int:
    """How many sessions a plan takes."""
    return len(Way) * sum(map(len, plan.values()))


async def run(plan: Plan, done: Callable[[str], None] = lambda _: None) -> dict[Way, tuple[Ran, ...]]:
    """Run a plan each way. Needs root. `done` hears of each session that ended. Raises DaemonFailedError."""
    table = site.read_table()
    with tempfile.TemporaryDirectory(prefix="opensafe-agentdojo-") as made:
        signed = await asyncio.to_thread(site.bundle, pathlib.Path(made), table)
        daemon = PrivateDaemon("agentdojo", _ROLES, bundle=signed.place, key=signed.public)
        async with running(daemon), AsyncExitStack() as stack:
            agent, reviewer = [
                await stack.enter_async_context(Client.connect(daemon.socket_of(name))) for name in _ROLES
            ]
            ways = _ways(table, agent, reviewer)
            return {way: await _all(plan, opening, done) for way, opening in ways.items()}


def _ways(table: Mapping[str, site.Entry], agent: Client, reviewer: Client) -> dict[Way, Opening]:
    @asynccontextmanager
    async def alone(task: str, world: Mapping[str, Any]) -> AsyncIterator[Gate]:
        del task, world
        async with opened(agent, reviewer, None) as gate:
            yield gate

    @asynccontextmanager
    async def approved(task: str, world: Mapping[str, Any]) -> AsyncIterator[Gate]:
        async with opened(agent, reviewer, Approver(table, task, world).approves) as gate:
            yield gate

    return {Way.OPEN: no_gate, Way.ALONE: alone, Way.APPROVER: approved}


async def _all(plan: Plan, opening: Opening, done: Callable[[str], None]) -> tuple[Ran, ...]:
    bound = asyncio.Semaphore(WIDTH)

    async def one(world: World, user: int, injection: int | None) -> Ran:
        async with bound:
            ran = await session(world, user, injection, opening)
            done(f"{world.name} {user}")
            return ran

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(one(world, user, injection))
            for world, pairs in ((World(name), pairs) for name, pairs in plan.items())
            for user, injection in pairs
        ]
    return tuple(task.result() for task in tasks)
