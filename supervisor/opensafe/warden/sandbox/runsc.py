"""runsc's command line: version gate, create, and a second driver beside the control socket.

Every runsc process is started through `launch`: inside the sandbox's own cgroup, without descriptors it was not
given, under no_new_privs and the host guard filter, all of which the sentry and the gofer inherit.
"""

import asyncio
import datetime as dt
import pathlib
import re
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ...errors import DriverError, HostUnsuitable
from .. import process
from ..network.ports import Port
from . import seccomp
from .driver import Execution, GuestProcess, GuestProgram, targets
from .layout import Layout
from .limits import Cgroup

#: First day whose builds have the fix of CVE-2026-96812 (character devices reached through the gofer).
MINIMUM_BUILD: Final = dt.date(2026, 8, 17)
PLATFORM: Final = "systrap"

_DEADLINE_S: Final = 30.0
_MESSAGE_MAX: Final = 500
_STDERR: Final = 2
_POLL_S: Final = 0.005
_FIELDS_BEFORE_NAME: Final = 8
#: A release is named release-YYYYMMDD.N, a module build v0.0.0-YYYYMMDDhhmmss-COMMIT.
_RELEASE: Final = re.compile(r"\brelease-(\d{4})(\d{2})(\d{2})\.")
_MODULE: Final = re.compile(r"\bv\d+\.\d+\.\d+-(?:\d+\.)?(\d{4})(\d{2})(\d{2})\d{6}-[0-9a-f]{12}\b")


async def check_version(runsc: pathlib.Path) -> str:
    """The version runsc names. Raises HostUnsuitable for one that is missing, undated or too old."""
    remedy = f"Install a build of {MINIMUM_BUILD} or later; `make setup` does."
    try:
        done = await process.run([str(runsc), "--version"], deadline_s=_DEADLINE_S)
    except (OSError, TimeoutError) as error:
        raise HostUnsuitable(f"{runsc} can't be run: {error}", remedy=remedy) from error
    named = done.stdout.decode("ascii", "replace").partition("\n")[0].removeprefix("runsc version ").strip()
    match = _RELEASE.search(named) or _MODULE.search(named)
    if done.returncode != 0 or match is None:
        raise HostUnsuitable(f"{runsc} names no dated version", value=named, remedy=remedy)
    built = dt.date(*(int(part) for part in match.groups()))
    if built < MINIMUM_BUILD:
        raise HostUnsuitable("runsc is too old", value=f"{named} of {built}", limit=MINIMUM_BUILD, remedy=remedy)
    return named


class Runsc:
    """The command line of the pinned runsc. `create` exists only here; what it makes is removed without it."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    async def create(
        self, sandbox_id: str, *, cgroup: Cgroup, root_overlay_bytes: int, session: pathlib.Path | None = None
    ) -> int:
        """Create the sandbox of a bundle that stands in its place; the sentry's process id.

        session: the file that says what the sentry is to report to whom. Raises DriverError with runsc's message.
        """
        bundle = self._layout.bundle(sandbox_id)
        overlay = f"--overlay2=root:memory,size={root_overlay_bytes}"
        pid_file = bundle / "pid"
        await self._run(
            *("create", "--bundle", str(bundle), "--pid-file", str(pid_file), sandbox_id),
            options=(overlay, *([f"--pod-init-config={session}"] if session else [])),
            cgroup=cgroup,
            bind=(self._layout.meminfo(sandbox_id), "/proc/meminfo"),
        )
        try:
            return int(pid_file.read_text())
        except (OSError, ValueError) as error:
            raise DriverError(f"runsc create wrote no process id ({error})") from error

    async def start(self, sandbox_id: str, port: Port | None = None) -> None:
        """See Driver. Loopback comes up because runsc copies the addresses of the namespace's `lo`."""
        if port is not None:
            raise DriverError("the command line gives a sandbox no link", value=sandbox_id)
        await self._run("start", sandbox_id)

    async def execute(self, sandbox_id: str, program: GuestProgram) -> Execution:
        """See Driver."""
        with tempfile.TemporaryDirectory(prefix="exec-", dir=self._layout.bundle(sandbox_id)) as scratch:
            wanted, pid_file = pathlib.Path(scratch, "process.json"), pathlib.Path(scratch, "pid")
            _write(wanted, _oci_process(program))
            extra = {guest: host for guest, host in program.descriptors.items() if guest > _STDERR}
            passed = [f"--pass-fd={host}:{guest}" for guest, host in extra.items()]
            command = ("exec", f"--process={wanted}", f"--internal-pid-file={pid_file}", *passed, sandbox_id)
            with seccomp.guard_pipe() as guard:
                child = process.spawn(
                    self._argv(command, guard, keep=tuple(extra.values())),
                    keep=(guard, *extra.values()),
                    stdin=program.descriptors.get(0, subprocess.DEVNULL),
                    stdout=program.descriptors.get(1, subprocess.DEVNULL),
                    stderr=program.descriptors.get(_STDERR, subprocess.DEVNULL),
                )
            try:
                pid = await _pid_written(pid_file, child)
            except BaseException:
                await child.close()
                raise
            return CliExecution(child, pid)

    async def processes(self, sandbox_id: str) -> tuple[GuestProcess, ...]:
        """See Driver."""
        return _listed(await self._run("ps", "--format=table", sandbox_id))

    async def pause(self, sandbox_id: str) -> None:
        """See Driver. The command line refuses a second pause."""
        await self._run("pause", sandbox_id)

    async def resume(self, sandbox_id: str) -> None:
        """See Driver."""
        await self._run("resume", sandbox_id)

    async def signal(self, sandbox_id: str, runner: int, number: int, *, whole_tree: bool) -> int:
        """See Driver. The command line signals no paused sandbox, so this is the driver that something may escape."""
        found = targets(await self.processes(sandbox_id), runner, whole_tree=whole_tree)
        for pid in found:
            try:
                await self._run("kill", f"--pid={pid}", sandbox_id, str(number))
            except DriverError as error:
                if "no such process" not in error.value:
                    raise
        return len(found)

    def _argv(
        self,
        command: Sequence[str],
        guard: int,
        *,
        keep: Sequence[int] = (),
        options: Sequence[str] = (),
        cgroup: Cgroup | None = None,
        bind: tuple[pathlib.Path, str] | None = None,
    ) -> list[str]:
        joined = [word for directory in (cgroup.directories if cgroup else ()) for word in ("--cgroup", directory)]
        kept = [word for descriptor in keep for word in ("--keep-fd", str(descriptor))]
        return [
            str(self._layout.launch),
            *joined,
            *(("--bind", *map(str, bind)) if bind else ()),
            *kept,
            *("--no-new-privileges", "--filter-fd", str(guard), "--"),
            str(self._layout.runsc),
            f"--root={self._layout.runsc_root}",
            f"--platform={PLATFORM}",
            "--network=sandbox",
            # The cgroup is ours and `launch` has joined it; without this runsc would make and join one of its own.
            "--ignore-cgroups",
            "--host-settings=ignore",
            *options,
            *command,
        ]

    async def _run(
        self,
        *command: str,
        options: Sequence[str] = (),
        cgroup: Cgroup | None = None,
        bind: tuple[pathlib.Path, str] | None = None,
    ) -> bytes:
        try:
            with seccomp.guard_pipe() as guard:
                argv = self._argv(command, guard, options=options, cgroup=cgroup, bind=bind)
                done = await process.run(argv, keep=(guard,), deadline_s=_DEADLINE_S)
        except TimeoutError as error:
            raise DriverError(f"runsc {command[0]} does not end", limit=f"{_DEADLINE_S} s") from error
        except OSError as error:
            raise DriverError(f"runsc {command[0]} can't be started: {error}") from error
        if done.returncode != 0:
            text = done.stderr.decode("utf-8", "replace").strip()
            raise DriverError(f"runsc {command[0]} failed with {done.returncode}", value=text[-_MESSAGE_MAX:])
        return done.stdout


class CliExecution:
    """A program started by `runsc exec`, which stays as long as the program does."""

    def __init__(self, child: process.Child, pid: int) -> None:
        self._child = child
        self.pid = pid

    async def wait(self) -> None:
        """See Execution."""
        await self._child.wait()

    async def close(self) -> None:
        """See Execution. Killing `runsc exec` does not end the program in the guest."""
        await self._child.close()


async def _pid_written(path: pathlib.Path, child: process.Child) -> int:
    """Wait for runsc to write the program's guest pid. Raises DriverError when runsc ends before it has."""
    ended = asyncio.ensure_future(child.wait())
    try:
        async with asyncio.timeout(_DEADLINE_S):
            while not (text := _text(path)):
                if ended.done() and not _text(path):
                    raise DriverError(f"runsc exec failed with {ended.result()}")
                await asyncio.wait((ended,), timeout=_POLL_S)
    except TimeoutError as error:
        raise DriverError("runsc exec does not start the program", limit=f"{_DEADLINE_S} s") from error
    finally:
        ended.cancel()
        # Through with the child's descriptor before anybody else waits on it.
        await asyncio.gather(ended, return_exceptions=True)
    return int(text)


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def _write(path: pathlib.Path, value: dict[str, Any]) -> None:
    path.write_bytes(msgspec.json.encode(value))


def _oci_process(program: GuestProgram) -> dict[str, Any]:
    capabilities = list(program.capabilities)
    return {
        "args": program.argv,
        "env": program.env,
        "cwd": program.cwd,
        "user": {"uid": 0, "gid": 0},
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), capabilities),
    }


def _listed(table: bytes) -> tuple[GuestProcess, ...]:
    """The processes of runsc's table, whose JSON form has no parents.

    UID PID PPID PGID C TTY STIME TIME CMD. The last is a name that the guest chose, up to 15 bytes and perhaps with
    newlines: it can cut its own line short after TIME, but is too short to forge another of eight fields.
    """
    lines = (line.split() for line in table.splitlines()[1:])
    try:
        return tuple(
            GuestProcess(int(line[1]), int(line[2]), b" ".join(line[_FIELDS_BEFORE_NAME:]).decode("utf-8", "replace"))
            for line in lines
            if len(line) >= _FIELDS_BEFORE_NAME
        )
    except ValueError as error:
        raise DriverError(f"runsc's process table is malformed ({error})") from error
