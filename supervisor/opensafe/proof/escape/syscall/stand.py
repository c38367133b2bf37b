"""What the syscall boundary's probes stand on: cells, a daemon, what was swept, and the host's kernel."""

import asyncio
import contextlib
import ctypes
import os
import pathlib
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Final

from opensafe.errors import DriverError
from opensafe.model.decision import Action
from opensafe.model.ids import new_id
from opensafe.model.outcome import OutcomeKind
from opensafe.proof import posture, private
from opensafe.proof.escape import host
from opensafe.proof.escape.cell import Cell, Output
from opensafe.proof.escape.ground import Ground, sandboxed
from opensafe.proof.escape.probe import Run
from opensafe.proof.escape.ways import ALL_CAPABILITIES, FILTER, POLICY, USER
from opensafe.proof.planting import plant
from opensafe.warden.sandbox.profiles import PROFILES

from . import plan
from .plan import Answers, Attempt
from .sweep import OPEN, PROGRAM, alone, bring, made, program, sweep

#: What the monitor ends a call for (policies/opensafe/runtime).
_ENDED: Final = "signal=31"

# linux/bpf.h
_MAP_GET_NEXT_ID, _MAP_GET_FD_BY_ID, _OBJ_GET_INFO_BY_FD = 12, 14, 15
_NR_BPF: Final = 321
_MAP_INFO_BYTES: Final = 256
_MAP_NAME: Final = slice(24, 40)
_CALLS_AT_ONCE: Final = 4
_CLOCK_SLACK_S: Final = 5.0
_LOOK_S: Final = 0.02
_libc: Final = ctypes.CDLL(None, use_errno=True)


async def swept(on: Ground, profile: str) -> Answers:
    """The answers to all attempts under a profile, or under none (OPEN), in a cell; made once for all who ask."""

    async def sweep_it() -> Answers:
        async with on.cells.cell() as cell:
            await bring(cell)
            return await sweep(cell, profile, plan.attempts())

    return await on.kept(f"sweep of {profile}", lambda: _once(sweep_it()))


async def swept_by_calls(on: Ground) -> Answers:
    """The same in a sandbox of the daemon's, under the profile of calls."""
    assert on.daemon is not None  # noqa: S101 - only a control has none
    daemon = on.daemon
    return await on.kept("sweep by calls", lambda: _once(called(daemon, plan.attempts())))


@contextlib.asynccontextmanager
async def _once(work: Coroutine[None, None, Answers]) -> AsyncIterator[Answers]:
    yield await work


async def called(of: private.PrivateDaemon, attempts: Sequence[Attempt]) -> Answers:
    """The answers in a sandbox of a daemon's, by calls that were judged. One that the profile kills for is a call of
    its own, because the monitor ends the whole call then. Raises DriverError, OpenSafeError.
    """
    async with sandboxed(of) as (client, session, sandbox):
        await plant(client.files(session, sandbox), PROGRAM, await program(pathlib.Path(of.paths.native)), mode=0o755)

        async def run(words: Sequence[str], deadline_s: float) -> Output:
            async with asyncio.timeout(deadline_s):
                command = {"command": " ".join(words)}
                result = await client.run_call(session, sandbox, new_id("call"), "Bash", command)
            if result.verdict.action is not Action.ALLOW:
                raise DriverError("policy refused the sweep", value=result.verdict.decision_id)
            if result.outcome.kind is OutcomeKind.VIOLATION:
                return Output(stdout=f"{words[-1].partition(':')[0]} {_ENDED}\n".encode(), stderr=b"")
            return Output(stdout=result.stdout, stderr=result.stderr)

        rules = PROFILES["default"]
        fatal = {one for one in attempts if plan.stated(rules, one) == "SIGSYS"}
        bound = asyncio.Semaphore(_CALLS_AT_ONCE)

        async def ended(one: Attempt) -> dict[Attempt, str]:
            async with bound:
                return await alone(run, one)

        answers = dict(await made(run, [one for one in attempts if one not in fatal]))
        for answer in await asyncio.gather(*map(ended, fatal)):
            answers |= answer
        return answers


async def unfiltered(on: Ground, attempts: Sequence[Attempt], *, root: bool) -> Run:
    """All of them where no filter is, as the guest's user or its root with every capability: what is held then is the
    host, and only that is looked at.
    """
    async with KernelScene.open() as scene, on.cells.cell() as cell:
        await bring(cell)
        if root:
            answers = await made(lambda words, deadline_s: _as_root(cell, words, deadline_s), attempts)
        else:
            answers = await sweep(cell, OPEN, attempts)
        found = await scene.found(b"") or "; ".join(posture.faults(posture.read(cell.cgroup.pids())))
    done = sum(answer not in ("ENOSYS", "blocked") for answer in answers.values())
    return Run(
        opened=(POLICY, FILTER, *((USER,) if root else ())),
        began=bool(answers),
        finished=len(answers) == len(attempts),
        found=found,
        layer=f"the sentry: {done} of {len(answers)} calls are its own, and the host is as it was",
    )


async def _as_root(cell: Cell, words: Sequence[str], deadline_s: float) -> Output:
    return await cell.raw(*words, capabilities=ALL_CAPABILITIES, deadline_s=deadline_s)


class KernelScene:
    """The host's kernel: modules, swap, clock, names, maps of BPF. Breached where any of it becomes another."""

    def __init__(self) -> None:
        self.facts: Mapping[str, object] = {"NAME": f"m{host.nonce()[:12]}"}
        self._before = _kernel()
        self._clock = _clock()
        self._maps: set[str] = set()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls) -> AsyncIterator["KernelScene"]:
        """Looked at all the time: a map is gone with the program that made it."""
        scene = cls()
        async with looking(lambda: scene._maps.update(bpf_maps())):
            yield scene

    async def found(self, output: bytes) -> str:  # noqa: ARG002 - what it says does not matter
        """In words, what changed."""
        now = _kernel()
        changed = [name for name in now if now[name] != self._before[name]]
        if changed:
            return f"the host has other {', '.join(changed)}"
        if abs(_clock() - self._clock) > _CLOCK_SLACK_S:
            return "the host's clock was set"
        self._maps.update(bpf_maps())
        return "the host has the guest's BPF map" if self.facts["NAME"] in self._maps else ""


@contextlib.asynccontextmanager
async def looking(look: Callable[[], object]) -> AsyncIterator[None]:
    """Look at something every 20 ms meanwhile: no event tells of it. Raises what a look raises."""

    async def on() -> None:
        while True:
            look()
            await asyncio.sleep(_LOOK_S)

    task = asyncio.create_task(on())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        task.result()


def _kernel() -> dict[str, str]:
    files = {"modules": "/proc/modules", "swap": "/proc/swaps", "domain": "/proc/sys/kernel/domainname"}
    texts = {name: place.read_text() for name, path in files.items() if (place := pathlib.Path(path)).exists()}
    return {**texts, "name": socket.gethostname(), "boot": pathlib.Path("/proc/sys/kernel/random/boot_id").read_text()}


def _clock() -> float:
    """Seconds from the boot to the epoch: only whoever sets the clock changes them."""
    return time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(time.CLOCK_BOOTTIME)


def bpf_maps() -> set[str]:
    """Names of all maps of the kernel (bpf(2)). None where the kernel has no BPF, or lets nobody ask."""
    names: set[str] = set()
    number = 0
    while True:
        asked = ctypes.create_string_buffer(struct.pack("II", number, 0), 16)
        if _bpf(_MAP_GET_NEXT_ID, asked) < 0:
            return names
        number = struct.unpack_from("II", asked)[1]
        descriptor = _bpf(_MAP_GET_FD_BY_ID, ctypes.create_string_buffer(struct.pack("I", number), 16))
        if descriptor < 0:  # gone meanwhile
            continue
        try:
            info = ctypes.create_string_buffer(_MAP_INFO_BYTES)
            told = struct.pack("IIQ", descriptor, _MAP_INFO_BYTES, ctypes.addressof(info))
            if _bpf(_OBJ_GET_INFO_BY_FD, ctypes.create_string_buffer(told, 16)) == 0:
                names.add(info.raw[_MAP_NAME].split(b"\0")[0].decode(errors="replace"))
        finally:
            os.close(descriptor)


def _bpf(command: int, attributes: "ctypes.Array[ctypes.c_char]") -> int:
    return int(_libc.syscall(_NR_BPF, command, attributes, len(attributes)))
