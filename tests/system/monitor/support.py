"""Real sandboxes under a monitor whose two ends run here: what it saw, what it found, what it did can be asked."""

import asyncio
import contextlib
import pathlib
from typing import Any

import msgspec

from opensafe.model.calls import Principal
from opensafe.model.ids import new_id
from opensafe.monitor.judge import Judge
from opensafe.monitor.watcher import FeedEndedError, Watcher
from opensafe.policy.bundle import load
from opensafe.policy.engine import Engine
from opensafe.policy.keys import trust
from opensafe.policy.reload import Loaded
from opensafe.proof.private import programs as programs_built
from opensafe.proof.private import trusted_key
from opensafe.warden import feed, wire
from opensafe.warden.sandbox import granted
from opensafe.warden.sandbox.control import ControlDriver
from opensafe.warden.sandbox.monitor import Monitor
from tests.system.warden.support import Caller, Direct, Host, NoFront


def shipped_policy():
    """The shipped bundle with an engine."""
    key = trusted_key().read_text()
    bundle = load(pathlib.Path(programs_built().bundle), trusted=trust((key,)))
    return Loaded(bundle=bundle, engine=Engine(bundle, deadline_ms=1000), quick=False)


class Counting(Judge):
    """A judge that remembers what it was asked, and what it answered."""

    def __init__(self):
        super().__init__()
        self.executed = []
        self.breaches = []

    def execution(self, sandbox_id, template, call, path, *, announced):
        self.executed.append((call.exec_id if call else "", path))
        breach = super().execution(sandbox_id, template, call, path, announced=announced)
        self.breaches += [breach] if breach else []
        return breach

    def fatal_call(self, sandbox_id, template, call):
        breach = super().fatal_call(sandbox_id, template, call)
        self.breaches += [breach] if breach else []
        return breach


class Watched(Direct):
    """`programs` is what the calls' grants say. `watched=False` is the positive control: the same with no monitor.
    images: another directory of images than the host's.
    """

    def __init__(self, policy, *, programs="any", watched=True, images=None):
        self.host = Host(pathlib.Path(programs_built().native))
        if images is not None:
            self.host.layout = msgspec.structs.replace(self.host.layout, images=images)
        super().__init__(self.host, "socket")
        self.granted = programs
        self.judge = Counting()
        self.judge.lead(policy)
        self.silences = 0
        self.monitor = Monitor(ControlDriver(self.layout), on_silence=self._silence)
        self.monitor.end_call = self.programs.break_off
        self._serving: Any = None
        self._watching: Any = None
        if watched:
            self.lifecycle.monitor = self.monitor
            self.attend()

    def attend(self):
        """Begin a helper's life."""
        ours, theirs = wire.pair()
        self.watcher = Watcher(theirs, self.judge)
        self._serving = asyncio.create_task(self.monitor.serve(ours))
        self._watching = asyncio.create_task(self._watch(self.watcher))

    async def depart(self):
        """End it, as a kill would: between two reports, without a word."""
        await self.freeze()
        self.watcher.close()
        await self._serving

    async def freeze(self):
        """Stop reading, as a stopped helper would: the feed stays open."""
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)

    async def gone(self):
        """Until the reader is given up."""
        await asyncio.shield(self._serving)

    async def close(self):
        if self._watching is not None:
            await self.freeze()
            self.watcher.close()
            await self._serving
        await self.monitor.close()
        await super().close()
        left = self.host.leftovers()
        self.host.remove()
        assert left == []

    async def start(self, launch, _, stdin, stdout, stderr):
        spec = self.lifecycle.get(launch.sandbox_id).spec
        image = self.lifecycle.images.of(spec.template, spec.image_digest)
        announced = feed.Call(
            exec_id=launch.exec_id,
            decision_id=new_id("dec"),
            call_id="call",
            session_id="session",
            tool="Bash",
            digest="",
            trace_id="",
            principal=Principal(name="agent", roles=("developer",)),
            agent="tester",
            profile=launch.profile,
            programs=granted.files(image.rootfs, image.digest, self.granted),
        )
        with self.programs.reserved(launch):
            await self.programs.start(launch, stdin, stdout, stderr, announced=announced)

    async def caller(self, template="base", limits=None):
        """A sandbox and hands for programs in it."""
        return await Caller(self, NoFront()).create(limits, template)

    async def settled(self):
        """Until all reports that wait now are read."""
        await self.monitor._answer_to(self.monitor._ping())

    def _silence(self):
        self.silences += 1

    async def _watch(self, watcher):
        with contextlib.suppress(FeedEndedError):
            await watcher.run()
