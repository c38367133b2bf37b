"""Many rollouts, each accounted for once: the loop behind RolloutPool.map."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

import msgspec
from opentelemetry import trace

from opensafe.client import SandboxOptions
from opensafe.errors import Conflict, SandboxError

from ._claim import Claim
from ._sent import HostLost, NoHostLeft, SentCall

Item = TypeVar("Item")
Value = TypeVar("Value")
MakeClaim = Callable[[SandboxOptions], Awaitable[Claim]]

_TRACER: Final = trace.get_tracer("opensafe.rollouts")


class RolloutStatus(StrEnum):
    """How a rollout ended. DONE: with a value. FAILED: its function raised. LOST: its host or sandbox is gone and
    something of it was executed, or perhaps was; or there was no host left to start it on.
    """

    DONE = "done"
    FAILED = "failed"
    LOST = "lost"


class RolloutOutcome(msgspec.Struct, Generic[Item, Value], frozen=True, kw_only=True):
    """One item's end. index: its place among the items. value: with DONE. error: else.

    host: the last. attempts: how often it was started; more than once only after attempts that executed nothing.
    calls: what the last attempt sent, with what is known of each.
    """

    index: int
    item: Item
    status: RolloutStatus
    value: Value | None = None
    error: Exception | None = None
    host: str = ""
    attempts: int = 1
    calls: tuple[SentCall, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return self.status is RolloutStatus.DONE


class _Ended(msgspec.Struct, frozen=True):
    """No more outcomes come. error: why not all items were taken."""

    error: Exception | None = None


async def run_all(
    claim: MakeClaim,
    rollout: Callable[[Claim, Item], Awaitable[Value]],
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    width: int,
    restarts: int,
    ended: Callable[[str], None],
) -> AsyncGenerator[RolloutOutcome[Item, Value], None]:
    """width: how many run at once, and how many outcomes wait to be read. ended: is told each status."""
    source = aiter(_numbered(items))
    taking = asyncio.Lock()
    outcomes: asyncio.Queue[Any] = asyncio.Queue(maxsize=width)
    no_more: list[Exception] = []

    async def work() -> None:
        while not no_more:
            try:
                async with taking:
                    index, item = await anext(source)
            except StopAsyncIteration:
                return
            except Exception as error:  # noqa: BLE001 - the items' own: it is raised once those taken are accounted for
                no_more.append(error)
                return
            outcome = await _one(claim, rollout, index, item, restarts)
            if isinstance(outcome.error, NoHostLeft):
                no_more.append(outcome.error)
            ended(outcome.status.value)
            await outcomes.put(outcome)

    async def all_of_them() -> None:
        workers = [asyncio.create_task(work(), name="opensafe-rollout") for _ in range(width)]
        try:
            await asyncio.gather(*workers)
            await outcomes.put(_Ended(no_more[0] if no_more else None))
        except Exception as error:  # noqa: BLE001 - it is raised to whoever reads the outcomes
            await _ended(workers)
            await outcomes.put(_Ended(error))
        finally:
            await _ended(workers)

    running = asyncio.create_task(all_of_them(), name="opensafe-rollouts")
    try:
        while True:
            outcome = await outcomes.get()
            if isinstance(outcome, _Ended):
                if outcome.error is not None:
                    raise outcome.error
                return
            yield outcome
    finally:
        await _ended([running])


async def _one(
    claim: MakeClaim, rollout: Callable[[Claim, Item], Awaitable[Value]], index: int, item: Item, restarts: int
) -> RolloutOutcome[Item, Value]:
    attempts = 0
    with _TRACER.start_as_current_span("opensafe.rollout", attributes={"opensafe.rollout.index": index}):
        while True:
            attempts += 1
            held: Claim | None = None
            try:
                held = await claim({})
                value = await rollout(held, item)
                return _outcome(index, item, attempts, held, status=RolloutStatus.DONE, value=value)
            except SandboxError as error:
                untouched = held is None or held.untouched
                if untouched and attempts <= restarts and not isinstance(error, NoHostLeft):
                    continue
                status = RolloutStatus.LOST if isinstance(error, HostLost) or not untouched else RolloutStatus.FAILED
                return _outcome(index, item, attempts, held, status=status, error=error)
            except Exception as error:  # noqa: BLE001 - a rollout's own failure is its outcome
                return _outcome(index, item, attempts, held, status=RolloutStatus.FAILED, error=error)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                own = Conflict("the rollout was cancelled from within")
                return _outcome(index, item, attempts, held, status=RolloutStatus.FAILED, error=own)
            finally:
                if held is not None:
                    await held.release()


def _outcome(index: int, item: Any, attempts: int, held: Claim | None, **known: Any) -> RolloutOutcome[Any, Any]:  # noqa: ANN401 - of any item
    host, calls = (held.host, held.calls) if held is not None else ("", ())
    return RolloutOutcome(index=index, item=item, attempts=attempts, host=host, calls=calls, **known)


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _numbered(items: Iterable[Item] | AsyncIterable[Item]) -> AsyncIterator[tuple[int, Item]]:
    index = 0
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield index, item
            index += 1
    else:
        for item in items:
            yield index, item
            index += 1
