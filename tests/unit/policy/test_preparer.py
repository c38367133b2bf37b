"""Preparation in processes of its own: what comes back, whatever becomes of them, and that none is left."""

import asyncio
import os
import pathlib
import resource
import signal
import time
from collections.abc import Callable, Iterator

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from opensafe.errors import BundleRefused
from opensafe.policy import native, sign
from opensafe.policy.confine import MEMORY
from opensafe.policy.job import Job
from opensafe.policy.native import Tier
from opensafe.policy.preparer import Preparer
from tests.harness.policy import KEY

PEM = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
PATIENCE_S = 20
#: By its number on x86-64, as /proc/PID/syscall has it.
RECVMSG = "47"

JobOf = Callable[..., Job]


@pytest.fixture
def preparer() -> Iterator[Preparer]:
    preparer = Preparer()
    yield preparer
    child, workers = preparer._child, workers_of(preparer)
    preparer.close()
    assert [pid for pid in (child, *workers) if pathlib.Path(f"/proc/{pid}").exists()] == []


@pytest.fixture
def job_of(built: pathlib.Path, cache: pathlib.Path) -> JobOf:
    def make(path: pathlib.Path = built, **more: bool) -> Job:
        return Job(path=str(path), keys=(PEM,), cache=str(cache), **more)

    return make


@pytest.fixture
def bad(built: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "bad"
    path.write_bytes(built.read_bytes()[:-9])
    return path


def workers_of(preparer: Preparer) -> list[int]:
    """The children of the process that waits."""
    child = preparer._child
    return [int(pid) for pid in pathlib.Path(f"/proc/{child}/task/{child}/children").read_text().split()]


def held_here() -> int:
    """Bytes of data of this process."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()


def until(done: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < end
        time.sleep(0.005)


def limits_of(pid: int) -> str:
    """Its rlimits as text."""
    return pathlib.Path(f"/proc/{pid}/limits").read_text()


def call_of(pid: int) -> str:
    """The number of the call that it is in; "" where it has ended since it was listed."""
    try:
        return pathlib.Path(f"/proc/{pid}/syscall").read_text().split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def standing_by(preparer: Preparer) -> int:
    """The worker that waits for a job, once it does: blocked in recvmsg."""

    def waits() -> bool:
        return [call_of(pid) for pid in workers_of(preparer)] == [RECVMSG]

    until(waits)
    (worker,) = workers_of(preparer)
    return worker


async def test_a_good_bundle_comes_back_without_its_module_and_machine_code_lies_in_the_cache(
    preparer: Preparer, job_of: JobOf, cache: pathlib.Path
) -> None:
    prepared = await preparer.prepare(job_of(optimise=True))
    assert (prepared.tier, prepared.bundle.wasm, prepared.bundle.vectors) == (Tier.OPTIMISED, b"", ())
    assert native.cached_path(cache, prepared.bundle.module, Tier.OPTIMISED).exists()


async def test_a_refusal_comes_back_with_its_reason(preparer: Preparer, job_of: JobOf, bad: pathlib.Path) -> None:
    with pytest.raises(BundleRefused, match="cut short"):
        await preparer.prepare(job_of(bad))
    assert (await preparer.prepare(job_of())).bundle.digest


async def test_after_a_good_one_a_worker_stands_by_and_takes_the_next_job(preparer: Preparer, job_of: JobOf) -> None:
    await preparer.prepare(job_of())
    first = standing_by(preparer)
    assert (await preparer.prepare(job_of())).bundle.digest
    until(lambda: first not in workers_of(preparer))  # it took that one job
    assert standing_by(preparer) != first


async def test_a_worker_is_confined(preparer: Preparer, job_of: JobOf) -> None:
    await preparer.prepare(job_of())
    limits = limits_of(standing_by(preparer))
    bound = next(int(line.split()[3]) for line in limits.splitlines() if line.startswith("Max data size"))
    assert MEMORY < bound <= MEMORY + held_here() + (64 << 20)  # it was forked from here


async def test_what_was_refused_is_not_rehearsed(preparer: Preparer, job_of: JobOf, bad: pathlib.Path) -> None:
    for path in (bad, bad):
        with pytest.raises(BundleRefused):
            await preparer.prepare(job_of(path))
    until(lambda: not workers_of(preparer))
    await asyncio.sleep(0.5)  # several times as long as the lull
    assert workers_of(preparer) == []


async def test_a_candidate_is_not_rehearsed(preparer: Preparer, job_of: JobOf) -> None:
    await preparer.prepare(job_of(candidate=True))
    until(lambda: not workers_of(preparer))
    await asyncio.sleep(0.5)  # as above
    assert workers_of(preparer) == []
    await preparer.prepare(job_of())
    assert standing_by(preparer)


async def test_a_worker_that_stands_by_takes_a_bad_bundle_as_well(
    preparer: Preparer, job_of: JobOf, bad: pathlib.Path
) -> None:
    await preparer.prepare(job_of())
    first = standing_by(preparer)
    with pytest.raises(BundleRefused, match="cut short"):
        await preparer.prepare(job_of(bad))
    until(lambda: first not in workers_of(preparer))
    assert standing_by(preparer)  # rehearsed with the good one before


async def test_jobs_at_once_have_a_worker_each(
    preparer: Preparer, job_of: JobOf, built: pathlib.Path, bad: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    content = await asyncio.to_thread(built.read_bytes)
    paths = {number: tmp_path / f"{number}" for number in range(2, 6)}
    for number, path in paths.items():
        path.write_bytes(sign.sign(content, KEY, number))
    refused, *good = [asyncio.create_task(preparer.prepare(job_of(path))) for path in (bad, *paths.values())]
    assert [prepared.bundle.number for prepared in await asyncio.gather(*good)] == list(paths)
    with pytest.raises(BundleRefused, match="cut short"):
        await refused


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
async def test_a_worker_that_dies_while_it_stands_by_costs_no_job(
    preparer: Preparer, job_of: JobOf, number: signal.Signals
) -> None:
    await preparer.prepare(job_of())
    worker = standing_by(preparer)
    os.kill(worker, number)
    until(lambda: worker not in workers_of(preparer))
    await asyncio.sleep(0.5)  # several times as long as the lull
    assert workers_of(preparer) == []  # it may have been the bundle
    assert (await preparer.prepare(job_of())).bundle.digest
    assert standing_by(preparer)


async def test_a_worker_that_is_stopped_before_it_is_ready_is_not_waited_for(preparer: Preparer, job_of: JobOf) -> None:
    await preparer.prepare(job_of())
    until(lambda: not workers_of(preparer))
    until(lambda: workers_of(preparer))
    (rehearsing,) = workers_of(preparer)
    os.kill(rehearsing, signal.SIGSTOP)
    assert (await preparer.prepare(job_of())).bundle.digest
    assert (await preparer.prepare(job_of())).bundle.digest
    assert rehearsing in workers_of(preparer)


async def test_a_worker_killed_at_its_job_is_a_refusal(preparer: Preparer, job_of: JobOf) -> None:
    await preparer.prepare(job_of())
    await asyncio.sleep(1)  # the one that did it has ended, and the next stands by
    worker = standing_by(preparer)
    os.kill(worker, signal.SIGSTOP)
    waiting = asyncio.create_task(preparer.prepare(job_of()))
    await asyncio.sleep(0)
    until(lambda: pathlib.Path(f"/proc/{worker}/stat").read_text().rpartition(") ")[2][0] == "T")
    await asyncio.sleep(1)  # the job is on its way to it
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(BundleRefused, match="without a result"):
        await waiting
    assert (await preparer.prepare(job_of())).bundle.digest


async def test_without_the_process_that_waits_nothing_is_prepared(job_of: JobOf) -> None:
    preparer = Preparer()
    await preparer.prepare(job_of())
    worker = standing_by(preparer)
    os.kill(preparer._child, signal.SIGKILL)
    with pytest.raises(BundleRefused, match=r"gone|without a result"):
        await preparer.prepare(job_of())
    preparer.close()
    until(lambda: not pathlib.Path(f"/proc/{worker}").exists())  # its end of the socket is the last
