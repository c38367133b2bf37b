"""Run probes with their controls: each run in its own part of the world, so that what is seen there is of it alone."""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from opensafe.errors import OpenSafeError
from opensafe.proof.escape.probe import Result, Run, judge
from opensafe.proof.world import Event, Kind, links, plan

from . import program
from .probe import Action, Evidence, NetworkProbe, Place, Scene, layers
from .stage import Listener, Said, Stage

#: Probes at the same time: each is a sandbox.
WIDTH: Final = 2
#: Two runs a probe, out of 198.51.100.64-249, which nothing else uses.
_FIRST: Final = 64
_PLACES: Final = 186
_BEGIN_S: Final = 60


class Suite:
    """One run of the suite."""

    def __init__(
        self, stage: Stage, *, only_controls: bool = False, done: Callable[[Result], None] = lambda _: None
    ) -> None:
        self._stage = stage
        self._done = done
        self._only_controls = only_controls
        self._listener = Listener()
        self._places = 0

    async def run(self, probes: Iterable[NetworkProbe], width: int = WIDTH) -> tuple[Result, ...]:
        """Every probe and its control; those that hurt the daemon one by one after the others, in the probes' order."""
        planned = list(probes)
        bound = asyncio.Semaphore(width)

        async def one(probe: NetworkProbe) -> Result:
            async with bound:
                return await self._probe(probe)

        async with self._listener.open():
            together = [probe for probe in planned if probe.action is Action.NONE]
            results = dict(zip([p.id for p in together], await asyncio.gather(*map(one, together)), strict=True))
            for probe in planned:
                if probe.action is not Action.NONE:
                    results[probe.id] = await self._probe(probe)
        return tuple(results[probe.id] for probe in planned)

    async def _probe(self, probe: NetworkProbe) -> Result:
        control = await self._run(probe, control=True)
        runs = [] if self._only_controls else [await self._run(probe, control=False)]
        result = judge(probe, runs, control)
        self._done(result)
        return result

    async def _run(self, probe: NetworkProbe, *, control: bool) -> Run:
        scene = self._scene(probe, control=control)
        text = program.build(probe, scene)
        acting = asyncio.create_task(self._act(probe, scene, control=control))
        try:
            said = await (self._stage.control(probe, text) if control else self._stage.guest(probe, text, scene))
            if not acting.done() and not self._began(scene):
                acting.cancel()
            scene = msgspec.structs.replace(scene, acted_us=await acting)
        except asyncio.CancelledError:
            if not acting.cancelled():
                raise
            said = Said(fault="the host did not see it begin")
        except (OpenSafeError, OSError, TimeoutError) as error:
            said = Said(fault=f"{type(error).__name__}: {error}")
        finally:
            acting.cancel()
        try:
            evidence = await self._evidence(probe, control=control)
        except (OpenSafeError, OSError, TimeoutError) as error:
            return Run(began=self._began(scene), finished=False, fault=f"{type(error).__name__}: {error}")
        lines = said.stdout.decode(errors="replace").splitlines()
        missing = probe.missing(scene, evidence) if probe.missing and not control else ""
        hints = tuple(line for line in lines if line.startswith(program.TRIED))
        return Run(
            began=self._began(scene),
            finished=program.DONE in lines,
            found=probe.found(scene, evidence),
            layer=layers(hints),
            hints=hints,
            fault=said.fault or missing,
        )

    async def _act(self, probe: NetworkProbe, scene: Scene, *, control: bool) -> int:
        if probe.action is Action.NONE:
            return 0
        async with asyncio.timeout(_BEGIN_S):
            await self._stage.world.until(lambda event: f"{probe.cue}{scene.nonce}".encode() in event.data)
        return await self._stage.act(Action.NONE if control else probe.action)

    def _began(self, scene: Scene) -> bool:
        return any(_begins(event, scene) for event in self._stage.world.log)

    def _scene(self, probe: NetworkProbe, *, control: bool) -> Scene:
        number = _FIRST + self._places % _PLACES
        self._places += 1
        return Scene(
            nonce="n" + secrets.token_hex(6),
            sink=f"198.51.100.{number}",
            private=f"10.9.9.{number}",
            six=f"2001:db8:51::{number:x}",
            port=self._listener.port,
            front=plan.ALLOWED if control and probe.place is Place.HOST else "",
        )

    async def _evidence(self, probe: NetworkProbe, *, control: bool) -> Evidence:
        """What came in over the one link, or over the other. Raises OpenSafeError, OSError, TimeoutError."""
        world = self._stage.world
        capture = await world.packets()
        plain = control and probe.place is Place.PLAIN
        link = links.TO_PLAIN if plain else links.TO_HOST
        if not capture.whole:
            raise OpenSafeError(f"the capture lost {capture.lost} packets")
        gateway: Sequence[str] = (f"link {links.TO_PLAIN}",) if control else await self._stage.gateway()
        return Evidence(
            events=tuple(event for event in world.log if (event.client in (plan.PLAIN, plan.PLAIN6)) is plain),
            packets=tuple(p for p in capture.packets if p.link == link and not p.outgoing),
            host=tuple(self._listener.received),
            gateway=tuple(gateway),
        )


def _begins(event: Event, scene: Scene) -> bool:
    return event.kind is Kind.REQUEST and f"{program.BEGIN}{scene.nonce}".encode() in event.data
