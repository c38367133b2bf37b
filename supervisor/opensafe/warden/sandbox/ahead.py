"""Runners that wait: started before their call is known, so that no call pays for its runner and its filter.

At most one waits in a sandbox, for a call of the default profile without a terminal; any other call gets a runner of
its own. What waits has its identities and its filter, and sleeps in the read of one packet (native/guest/command.h).
Its child has the programs' uid by then. A program of the same sandbox can thus kill it, as it can kill any other
program of that sandbox, but can neither open nor trace it. One that was killed is discarded, and its place stays
empty until the next call has ended, so that this is no loop that a guest can drive.
"""

import asyncio
import contextlib
import logging
import os
import select
import socket
from typing import Final

from ...errors import DriverError, OpenSafeError
from ...model.sandbox import Launch
from ..waiting import readable
from . import runner, seccomp
from .driver import Driver, Execution

_log = logging.getLogger(__name__)

_PROFILE: Final = "default"


class Waiting:
    """One runner that waits. `report` belongs to whoever took it."""

    def __init__(self, execution: Execution, report: int, command: socket.socket) -> None:
        self.execution = execution
        self.report = report
        self._command = command

    def alive(self) -> bool:
        """Whether it still waits: it says nothing before it has run something."""
        poll = select.poll()
        poll.register(self.report, select.POLLIN)
        return not poll.poll(0)

    async def run(self, packet: bytes, streams: tuple[int, int, int]) -> Execution:
        """Let it run what the packet says. Raises DriverError."""
        try:
            socket.send_fds(self._command, [packet], streams)
        except OSError as error:
            raise DriverError(f"the runner does not take its command: {error}") from error
        finally:
            self._command.close()
        return self.execution

    async def discard(self) -> None:
        """Let it go."""
        self._command.close()
        os.close(self.report)
        await self.execution.close()


class Ahead:
    """The runners that wait, by sandbox."""

    def __init__(self, driver: Driver, *, enabled: bool) -> None:
        self._driver = driver
        self._enabled = enabled
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[str, Waiting] = {}

    def prepare(self, sandbox_id: str) -> None:
        """Start one in this sandbox, unless it has one."""
        if self._enabled and sandbox_id not in self._tasks:
            self._tasks[sandbox_id] = asyncio.create_task(self._keep(sandbox_id), name=f"{sandbox_id}-ahead")

    def take(self, launch: Launch) -> tuple[Waiting, bytes] | None:
        """The one that can run this launch, and what to send it."""
        if launch.profile != _PROFILE or launch.terminal is not None or launch.sandbox_id not in self._waiting:
            return None
        packet = runner.packet(launch)
        if packet is None or not self._waiting[launch.sandbox_id].alive():
            return None
        self._tasks.pop(launch.sandbox_id).cancel()
        return self._waiting.pop(launch.sandbox_id), packet

    async def close(self) -> None:
        """Let all go."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, sandbox_id: str) -> None:
        """Start one, and discard it when it has ended. Whoever takes it ends this first."""
        me = asyncio.current_task()
        try:
            made = await self._start(sandbox_id)
            self._waiting[sandbox_id] = made
            try:
                await readable(made.report)
            finally:
                if self._waiting.get(sandbox_id) is made:
                    del self._waiting[sandbox_id]
                    await made.discard()
        except OpenSafeError as error:
            _log.debug("no runner waits in %s: %s", sandbox_id, error)
        finally:
            if self._tasks.get(sandbox_id) is me:
                del self._tasks[sandbox_id]

    async def _start(self, sandbox_id: str) -> Waiting:
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as passed:
            report, report_end = runner.pipe(ours, passed)
            os.set_blocking(report, False)
            command, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
            ours.callback(command.close)
            passed.callback(far_end.close)
            command.setblocking(False)
            empty = passed.enter_context(runner.nothing())
            program = runner.waiting_program(
                {0: empty, 1: empty, 2: empty},
                report=report_end,
                filtered=passed.enter_context(seccomp.profile_pipe(_PROFILE)),
                command=far_end.fileno(),
            )
            execution = await self._driver.execute(sandbox_id, program)
            ours.pop_all()
        return Waiting(execution, report, command)
