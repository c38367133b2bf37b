"""Runners that wait: started before their call is known, so that no call pays for its runner and its filter.

At most one waits in a sandbox, for a call of the default profile and user without a terminal; any other call gets a
runner of its own. What waits has its identities and its filter, and sleeps in the read of one packet
(native/guest/command.h). Its child has the programs' uid by then. A program of the same sandbox can thus kill it, as it
can kill any other program of that sandbox, but can neither open nor trace it. One that was killed is discarded, and its
place stays empty until the next call has ended, so that this is no loop that a guest can drive.
"""

import asyncio
import contextlib
import logging
import os
import select
import socket
from collections.abc import Mapping
from typing import Final

from ...errors import DriverError, OpenSafeError
from ...model.sandbox import Launch
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
    """The runners that wait, by the container that they wait in."""

    def __init__(self, driver: Driver, *, enabled: bool) -> None:
        self._driver = driver
        self._enabled = enabled
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[str, Waiting] = {}
        self._discarding: set[asyncio.Task[None]] = set()

    def prepare(self, container: str) -> None:
        """Start one in this sandbox, unless it has one."""
        if self._enabled and container not in self._starting and container not in self._waiting:
            self._starting[container] = asyncio.create_task(self._start(container), name=f"{container}-ahead")

    async def settled(self, container: str) -> None:
        """Until the one that is being started waits, or is given up."""
        if container in self._starting:
            await asyncio.wait((self._starting[container],))

    def waiting_in(self, container: str) -> int:
        """Guest process id of the one that waits here; 0 where none does."""
        return self._waiting[container].execution.pid if container in self._waiting else 0

    def take(self, launch: Launch, container: str, environment: Mapping[str, str]) -> tuple[Waiting, bytes] | None:
        """The one that can run this launch, and what to send it. environment: of the sandbox's own."""
        plain = launch.profile == _PROFILE and launch.terminal is None and launch.user is None
        if not plain or container not in self._waiting:
            return None
        packet = runner.packet(launch, environment)
        if packet is None or not self._waiting[container].alive():
            return None
        return self._remove(container), packet

    async def close(self) -> None:
        """Let all go."""
        for starting in self._starting.values():
            starting.cancel()
        await asyncio.gather(*self._starting.values(), return_exceptions=True)
        for container in tuple(self._waiting):
            self._ended(container)
        await asyncio.gather(*self._discarding, return_exceptions=True)

    async def _start(self, container: str) -> None:
        try:
            made = await self._make(container)
        except (OpenSafeError, OSError) as error:
            _log.debug("no runner waits in %s: %s", container, error)
        else:
            self._waiting[container] = made
            # It says nothing before it has run something.
            asyncio.get_running_loop().add_reader(made.report, self._ended, container)
        finally:
            del self._starting[container]

    def _remove(self, container: str) -> Waiting:
        made = self._waiting.pop(container)
        asyncio.get_running_loop().remove_reader(made.report)
        return made

    def _ended(self, container: str) -> None:
        discarding = asyncio.create_task(self._remove(container).discard())
        self._discarding.add(discarding)
        discarding.add_done_callback(self._discarding.discard)

    async def _make(self, container: str) -> Waiting:
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as passed:
            report, report_end = runner.pipe(ours, passed)
            os.set_blocking(report, False)
            command, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
            ours.callback(command.close)
            passed.callback(far_end.close)
            command.setblocking(False)
            program = runner.waiting_program(
                report=report_end,
                filtered=passed.enter_context(seccomp.profile_pipe(_PROFILE)),
                command=far_end.fileno(),
            )
            execution = await self._driver.execute(container, program)
            ours.pop_all()
        return Waiting(execution, report, command)
