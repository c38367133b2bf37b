"""The order of an activation, and that whatever fails on the way leaves the old bundle in both engines."""

import asyncio

import pytest

from opensafe.control import activation
from opensafe.control.activation import ACTIVATED, REFUSED, Activations
from opensafe.errors import BundleRefused, Unavailable
from opensafe.model.facts import ClassTables
from opensafe.policy.manifest import Bundle
from opensafe.policy.reload import Loaded
from opensafe.state.store import Store
from opensafe.warden.protocol import Offer

OLD, NEW = "1" * 64, "2" * 64


class Engine:
    def __init__(self, digest):
        self.digest, self.closed = digest, False

    def close(self):
        self.closed = True


class World:
    """The parts around an activation, each of which notes what it was asked and fails where a test wants it to."""

    key_ids = ()

    def __init__(self, path):
        self.notes, self.fails, self.numbers = [], {}, {OLD: 5, NEW: 6}
        self.store = Store(path / "index.sqlite")
        self.size = 0
        self.engine = None
        self.offer = Offer(number=1, digest=OLD)
        self.engines = []

    async def _note(self, what):
        self.notes.append(what)
        if what in self.fails:
            problem = self.fails[what]
            await problem() if callable(problem) else None
            raise problem

    async def load(self, digest, *, optimise=False):  # the loader
        await self._note(f"load {digest[0]}")
        self.engines.append(Engine(digest))
        bundle = Bundle(
            revision=f"{self.numbers[digest]}-{digest[0] * 12}", digest=digest, number=self.numbers[digest],
            wasm=b"", data=b"", tables=ClassTables(), entrypoints=(), vectors=(),
        )  # fmt: skip
        return Loaded(bundle=bundle, engine=self.engines[-1], quick=False)

    async def await_bundle(self, after):  # the warden
        if self.offer.number <= after:
            await asyncio.Event().wait()
        return self.offer

    async def ask_helper(self, digest, *, swap):
        await self._note(f"helper {'swap' if swap else 'prepare'} {digest[0]}")

    async def append(self, record):  # the log
        self.notes.append(record.state)
        self.store.fold(self.size, record)
        self.size += 1

    def enforce(self, engine, bundle):  # the judge
        self.notes.append(f"enforce {bundle.digest[0]}")
        self.engine = engine

    def in_force(self, revision):
        if "canary" in self.fails:
            return self.fails["canary"]
        return self.engine is not None and revision.endswith(self.engine.digest[:12])


@pytest.fixture
async def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.store.close()


@pytest.fixture
async def active(world):
    """Activations with the old bundle in force, and how the next offer of NEW ends."""
    activations = Activations(world, world, world.store, world, "/place")
    world.engine = (await activations.begin()).engine
    activations.lead(world)
    watching = asyncio.create_task(activations.watch())
    settled = activations.settled()
    await anext(settled)

    async def offered(digest=NEW, refused=""):
        world.notes.clear()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        world.offer = Offer(number=world.offer.number + 1, digest=digest, refused=refused)
        again = asyncio.create_task(activations.watch())
        try:
            return await asyncio.wait_for(anext(settled), 10)
        finally:
            again.cancel()
            await asyncio.gather(again, return_exceptions=True)

    yield offered
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    await activations.close()


def open_engines(world):
    return [engine.digest for engine in world.engines if not engine.closed]


async def test_the_front_swaps_last_and_the_record_comes_after_the_canary(world, active):
    end = await active()
    assert (end.state, end.revision, end.number) == (ACTIVATED, "6-222222222222", 6)
    order = ["load 2", "helper prepare 2", "helper swap 2", "enforce 2", "activated"]
    assert [note for note in world.notes if note in order] == order
    assert open_engines(world) == [NEW]
    assert world.store.bundle("activated").number == 6


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("load 2", BundleRefused("hash: a member")),
        ("helper prepare 2", BundleRefused("egress helper: hash")),
        ("helper prepare 2", Unavailable("the egress helper ended")),
        ("helper swap 2", Unavailable("the egress helper ended")),
    ],
)
async def test_CP_12_what_either_refuses_is_in_force_in_neither(world, active, where, problem):
    world.fails[where] = problem
    end = await active()
    assert (end.state, problem.message in end.reason) == (REFUSED, True)
    assert "enforce 2" not in world.notes
    assert "helper swap 1" in world.notes[-3:]
    assert open_engines(world) == [OLD]
    assert (world.store.bundle("activated").digest, world.store.bundle("refused").digest) == (OLD, NEW)


@pytest.mark.parametrize("answer", [False, True])
async def test_G25_a_canary_that_does_not_flip_takes_both_back(world, active, answer):
    world.fails["canary"] = answer
    end = await active()
    assert (end.state, "canary" in end.reason) == (REFUSED, True)
    assert world.engine.digest == OLD
    assert open_engines(world) == [OLD]
    assert world.notes[-1] in ("helper swap 1", "refused")
    assert "activated" not in world.notes


async def test_G24_what_hangs_is_refused_in_time(world, active, monkeypatch):
    monkeypatch.setattr(activation, "DEADLINE_S", 0.05)
    world.fails["helper prepare 2"] = asyncio.Event().wait
    end = await active()
    assert (end.state, "within" in end.reason) == (REFUSED, True)
    assert open_engines(world) == [OLD]


@pytest.mark.parametrize("number", [4, 5])
async def test_CP_10_a_number_that_does_not_grow_is_refused(world, active, number):
    world.numbers[NEW] = number
    end = await active()
    assert (end.state, "not higher" in end.reason) == (REFUSED, True)
    assert open_engines(world) == [OLD]


async def test_what_could_not_be_read_is_refused_and_the_same_again_is_no_change(world, active):
    assert (await active("", "not a regular file")).state == REFUSED
    assert "load" not in "".join(world.notes)
    assert (await active(OLD)).state == ACTIVATED
    assert "activated" not in world.notes


async def test_a_start_without_a_good_bundle_is_no_start(world):
    world.fails["load 1"] = BundleRefused("signature: absent")
    with pytest.raises(BundleRefused, match="signature"):
        await Activations(world, world, world.store, world, "/place").begin()


async def test_a_start_on_a_bad_bundle_takes_the_last_good_one(world, active):
    world.offer = Offer(number=9, digest=NEW)
    world.fails["load 2"] = BundleRefused("signature: absent")
    again = Activations(world, world, world.store, world, "/place")
    assert (await again.begin()).bundle.digest == OLD
    assert again.last.state == REFUSED
    assert "signature" in again.last_refusal().reason
    await again.close()
