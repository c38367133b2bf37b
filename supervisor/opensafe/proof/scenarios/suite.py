"""All scenarios: the attack and the twin on the shipped rules, and the attack once more where every answer is yes.

The last is the control: an attack that leaves no mark even there has not shown that anything stopped it.
"""

import asyncio
import pathlib
import tempfile
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from opensafe.proof.around import running
from opensafe.proof.private import PrivateDaemon

from . import site
from .data import Entry, Part
from .play import End, Played, cast_of, play

#: Plays at the same time: each is a sandbox.
WIDTH: Final = 3
PARTS: Final = 3
_STAFF: Final = {"other": ("developer",), "reviewer": ("reviewer",)}


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a scenario came to. rule: named for the attack, among those that stopped it."""

    entry: Entry
    attack: Played
    twin: Played
    control: Played

    @property
    def stopped(self) -> bool:
        """The attack was stopped by a right rule, left no mark, and its control did leave one."""
        scenario = self.entry.scenario
        right = not {scenario.rule, *scenario.also}.isdisjoint(self.attack.rules)
        return self.attack.end is End.STOPPED and right and self.control.marked

    @property
    def honest(self) -> bool:
        """The twin ran: every aim was allowed, and its mark is there."""
        return self.twin.end is End.RAN and self.twin.marked and set(self.twin.said) == {"allow"}


async def run(entries: Iterable[Entry], done: Callable[[str], None] = lambda _: None) -> tuple[Result, ...]:
    """Play all of them. Needs root. `done` hears of each part that ended. Raises DaemonFailedError."""
    wanted = tuple(entries)
    # The daemons one after the other: two would want the memory of both.
    attacks = [entry.scenario.attack for entry in wanted]
    twins = [entry.scenario.twin for entry in wanted]
    played = await _on(attacks + twins, done, opened=False)
    opened = [entry for entry in wanted if entry.scenario.control == "opened"]
    controls = dict(
        zip(
            (one.scenario.id for one in opened),
            await _on([one.scenario.attack for one in opened], done, opened=True),
            strict=True,
        )
    )
    return tuple(
        Result(entry=entry, attack=attack, twin=twin, control=controls.get(entry.scenario.id, twin))
        for entry, attack, twin in zip(wanted, played[: len(wanted)], played[len(wanted) :], strict=True)
    )


async def _on(parts: list[Part], done: Callable[[str], None], *, opened: bool) -> list[Played]:
    if not parts:
        return []
    names = [f"agent-{number}" for number in range(len(parts))]
    roles = {**_STAFF, **dict.fromkeys(names, ("developer",))}
    bound = asyncio.Semaphore(WIDTH)
    with tempfile.TemporaryDirectory(prefix="opensafe-scenarios-") as made:
        signed = await asyncio.to_thread(lambda: site.bundle(pathlib.Path(made), opened=opened))
        daemon = PrivateDaemon("scenarios", roles, bundle=signed.place, key=signed.public)
        sockets = {name: daemon.socket_of(name) for name in roles}

        async def one(name: str, part: Part) -> Played:
            async with bound, cast_of(name, sockets) as cast:
                ended = await play(part, cast, strict=not opened)
                done(part.idea)
                return ended

        async with running(daemon):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(name, part)) for name, part in zip(names, parts, strict=True)]
            return [task.result() for task in tasks]
