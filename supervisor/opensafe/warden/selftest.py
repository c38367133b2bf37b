"""Proof, at every start, that enforcement holds on this host: what must be refused is tried in a real sandbox.

Each check has a control, the same attempt where it must succeed. A refusal counts only beside a control that got
through, and only by what the *host* saw: the canary's nonce in the output, a connection that arrived. The
unfiltered control is made here, below the protocol, which can't express it.
"""

import asyncio
import contextlib
import errno
import os
import pathlib
import secrets
from collections.abc import AsyncIterator, Mapping
from typing import Final

from pyroute2 import IPRoute

from ..errors import HostUnsuitable, SandboxStartFailed
from ..model.calls import Program
from ..model.ids import new_id
from ..model.limits import CallLimits, SandboxLimits
from ..model.sandbox import Launch, SandboxSpec
from . import process
from .protocol import Check
from .sandbox import layout as guest
from .sandbox.driver import Driver
from .sandbox.layout import Layout
from .sandbox.lifecycle import Lifecycle
from .sandbox.programs import Programs
from .sandbox.runner import guest_program

_TEMPLATE: Final = "base"
#: unshare(0) moves nothing: gVisor grants it, and it is in no profile.
_UNSHARE: Final = ("syscall", "272", "0")
_DENIED: Final = f"errno=EXDEV/{errno.EXDEV}"
_NOT_THERE: Final = f"errno=ENOENT/{errno.ENOENT}"
_SUCCEEDED: Final = "result=0"
_OUTPUT_MAX: Final = 64 * 1024
#: One runs at a time; one that ended counts until its runner is reaped.
_PROGRAMS_MAX: Final = 8
_DEADLINE_S: Final = 20.0
_AF_INET: Final = 2


async def run(layout: Layout, lifecycle: Lifecycle, driver: Driver) -> tuple[Check, ...]:
    """All checks. Raises HostUnsuitable naming each that was not refused or whose control failed."""
    try:
        digest = lifecycle.images.find(_TEMPLATE).digest
    except SandboxStartFailed as error:
        raise HostUnsuitable(error.message, value=layout.images / _TEMPLATE, remedy=error.remedy) from error
    spec = SandboxSpec(sandbox_id=new_id("sb"), image_digest=digest, limits=SandboxLimits())
    with lifecycle.reserved(spec):
        await lifecycle.create(spec)
    programs = Programs(driver, lifecycle, limit=_PROGRAMS_MAX)
    try:
        probe = Probe(layout, driver, programs, spec.sandbox_id)
        addresses = ("127.0.0.1", *await asyncio.to_thread(_other_addresses))
        checks = (
            await _system_call(probe),
            await _path(probe, layout.run),
            *[await _address(probe, address) for address in addresses],
        )
    finally:
        await programs.close()
        await lifecycle.delete(spec.sandbox_id)
    failed = [check for check in checks if not (check.refused and check.control_succeeded)]
    if failed:
        raise HostUnsuitable(
            "the self-test found enforcement that does not hold",
            value="; ".join(f"{c.name}: sandbox {c.answer!r}, control {c.control_answer!r}" for c in failed),
            remedy="Do not run anything here. `opensafe doctor` says what the host lacks.",
        )
    return checks


class Probe:
    """`probe` run in the sandbox as a call is, in the sandbox without the filter, and bare on the host."""

    def __init__(self, layout: Layout, driver: Driver, programs: Programs, sandbox_id: str) -> None:
        self._layout = layout
        self._driver = driver
        self._programs = programs
        self._sandbox_id = sandbox_id

    async def confined(self, *words: str, profile: str = "default") -> str:
        """Under a profile, as a call is."""
        launch = self._launch(words, profile)
        async with _captured() as (streams, output):
            with self._programs.reserved(launch):
                await self._programs.start(launch, *streams.values())
            await self._programs.wait(launch.exec_id)
            return output()

    async def unfiltered(self, *words: str) -> str:
        """In the sandbox, by the same runner, with no filter."""
        async with _captured() as (streams, output):
            report, report_end = os.pipe2(os.O_CLOEXEC)
            try:
                execution = await self._driver.execute(
                    self._sandbox_id, guest_program(self._launch(words), streams, report=report_end, filtered=None)
                )
                await execution.wait()
                await execution.close()
            finally:
                os.close(report)
                os.close(report_end)
            return output()

    async def bare(self, *words: str) -> str:
        """On the host."""
        done = await process.run([str(self._layout.guest / "probe"), *words], deadline_s=_DEADLINE_S)
        return done.stdout.decode("utf-8", "replace").strip()

    def _launch(self, words: tuple[str, ...], profile: str = "default") -> Launch:
        return Launch(
            sandbox_id=self._sandbox_id,
            exec_id=new_id("exec"),
            program=Program(argv=(f"{guest.GUEST_TOOLS}/probe", *words), env={}, cwd="/"),
            profile=profile,
            limits=CallLimits(),
        )


async def _system_call(probe: Probe) -> Check:
    answer, control = await probe.confined(*_UNSHARE), await probe.unfiltered(*_UNSHARE)
    return Check(
        name="system call",
        refused=answer == _DENIED,
        control_succeeded=control == _SUCCEEDED,
        answer=answer,
        control_answer=control,
    )


async def _path(probe: Probe, directory: pathlib.Path) -> Check:
    nonce = secrets.token_hex(16)
    canary = directory / f"canary-{secrets.token_hex(4)}"
    canary.write_text(nonce)
    try:
        # Under the profile that has openat2, so that it is not the filter that refuses.
        answer = await probe.confined("read", str(canary), profile="file")
        control = await probe.bare("read", str(canary))
    finally:
        canary.unlink()
    return Check(
        name="host path",
        refused=answer == _NOT_THERE,
        control_succeeded=control == nonce,
        answer=answer[:100],
        control_answer="the nonce" if control == nonce else control[:100],
    )


async def _address(probe: Probe, address: str) -> Check:
    arrived = 0

    def count(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal arrived
        arrived += 1
        writer.close()

    async with await asyncio.start_server(count, address, 0) as listener:
        port = str(listener.sockets[0].getsockname()[1])
        answer = await probe.confined("connect", address, port)
        from_sandbox = arrived
        control = await probe.bare("connect", address, port)
    return Check(
        name=f"host address {address}",
        refused=answer.startswith("errno=") and from_sandbox == 0,
        control_succeeded=control == "connected",
        answer=answer,
        control_answer=control,
    )


def _other_addresses() -> list[str]:
    """One IPv4 address of the host that is not loopback, if there is one."""
    with IPRoute() as route:
        addresses = [str(one.get_attr("IFA_ADDRESS")) for one in route.get_addr(family=_AF_INET)]
    return [address for address in addresses if not address.startswith("127.")][:1]


class _Output:
    """What a program wrote: the read ends of its pipes, read once it has ended."""

    def __init__(self, *ends: int) -> None:
        self._ends = ends

    def __call__(self) -> str:
        written = b""
        for end in self._ends:
            with contextlib.suppress(BlockingIOError):
                written += os.read(end, _OUTPUT_MAX)
        return written.decode("utf-8", "replace").strip()


@contextlib.asynccontextmanager
async def _captured() -> AsyncIterator[tuple[Mapping[int, int], _Output]]:
    """Descriptors for a program's standard streams, and its output. The input is at its end."""
    opened: list[int] = []
    try:
        stdin, stdin_end = os.pipe2(os.O_CLOEXEC)
        opened.append(stdin)
        os.close(stdin_end)
        out, out_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        opened += (out, out_end)
        err, err_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        opened += (err, err_end)
        yield {0: stdin, 1: out_end, 2: err_end}, _Output(out, err)
    finally:
        for descriptor in opened:
            os.close(descriptor)
