"""The helper takes the front's steps one after the other: what it serves by, what it says of it, what it frees."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from opensafe.daemon.helper import Helper
from opensafe.errors import BundleRefused
from opensafe.model.facts import ClassTables
from opensafe.policy.manifest import Bundle
from opensafe.policy.reload import Loaded
from opensafe.warden.bundles import Mailbox
from opensafe.warden.protocol import BundleStep

ONE, TWO, BAD = "1" * 64, "2" * 64, "f" * 64


class Engine:
    closed = False

    def close(self) -> None:
        self.closed = True


class World:
    """Loader and judge; what stands between helper and front is the warden's own mailbox."""

    def __init__(self) -> None:
        self.mailbox = Mailbox()
        self.engines: dict[str, list[Engine]] = {}
        self.led: list[str] = []

    async def load(self, digest: str, *, optimise: bool = False) -> Loaded:
        if digest == BAD:
            raise BundleRefused("signature: not that of this manifest")
        engine = Engine()
        self.engines.setdefault(digest, []).append(engine)
        bundle = Bundle(
            revision=f"1-{digest[:12]}", digest=digest, wasm=b"", data=b"",
            tables=ClassTables(), entrypoints=(), vectors=(),
        )  # fmt: skip
        return Loaded(bundle=bundle, engine=engine, quick=False)  # type: ignore[arg-type]  # only closed

    async def next_step(self, finished: int, error: str) -> BundleStep:
        return await self.mailbox.next(finished, error)

    def lead(self, loaded: Loaded | None) -> None:
        self.led.append(loaded.bundle.digest if loaded else "")

    def open(self) -> list[str]:
        """Digests of the engines that were not closed."""
        return [digest for digest, engines in self.engines.items() for engine in engines if not engine.closed]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def helper(world: World) -> AsyncIterator[Helper]:
    helper = Helper(world, world, world, None)  # type: ignore[arg-type]  # each has the methods that are used
    following = asyncio.create_task(helper.follow())
    yield helper
    following.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await following
    await helper.close()
    assert world.open() == []


def served(helper: Helper) -> str:
    return helper.serving.bundle.digest if helper.serving else ""


async def test_what_was_prepared_is_served_by_after_the_swap_and_loaded_once(world: World, helper: Helper) -> None:
    await world.mailbox.ask(ONE, swap=False)
    assert served(helper) == ""
    await world.mailbox.ask(ONE, swap=True)
    assert (served(helper), world.mailbox.serving) == (ONE, ONE)
    assert (len(world.engines[ONE]), world.led) == (1, [ONE])


async def test_the_engine_before_is_freed_with_the_swap_and_not_earlier(world: World, helper: Helper) -> None:
    await world.mailbox.ask(ONE, swap=True)
    await world.mailbox.ask(TWO, swap=False)
    assert world.open() == [ONE, TWO]
    await world.mailbox.ask(TWO, swap=True)
    assert (served(helper), world.open()) == (TWO, [TWO])


async def test_a_swap_is_to_the_bundle_it_names_whatever_was_prepared(world: World, helper: Helper) -> None:
    await world.mailbox.ask(TWO, swap=False)
    await world.mailbox.ask(ONE, swap=True)
    assert (served(helper), world.open()) == (ONE, [ONE])


@pytest.mark.parametrize("swap", [False, True])
async def test_a_refusal_reaches_the_front_and_changes_nothing(world: World, helper: Helper, swap: bool) -> None:
    await world.mailbox.ask(ONE, swap=True)
    with pytest.raises(BundleRefused, match="egress helper: signature"):
        await world.mailbox.ask(BAD, swap=swap)
    assert (served(helper), world.mailbox.serving, world.open()) == (ONE, ONE, [ONE])
    await world.mailbox.ask(TWO, swap=True)
    assert served(helper) == TWO


async def test_back_to_what_is_served_by_loads_nothing(world: World, helper: Helper) -> None:
    await world.mailbox.ask(ONE, swap=True)
    await world.mailbox.ask(TWO, swap=False)
    await world.mailbox.ask(ONE, swap=True)
    assert (served(helper), len(world.engines[ONE])) == (ONE, 1)
