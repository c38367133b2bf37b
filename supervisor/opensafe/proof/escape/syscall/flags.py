"""What runsc could be told by the daemon's settings or its environment: flags that no sandbox may have."""

import asyncio
import contextlib
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Final

from opensafe.proof import posture, private
from opensafe.proof.escape.ground import Ground, sandboxed
from opensafe.proof.escape.probe import Boundary, Run, Severity
from opensafe.proof.escape.trial import Trial

from .mutants import VARIABLE, mutant

_FLAGS: Final = (
    "--TESTONLY-unsafe-nonroot", "--profile", "--host-uds=open", "--network=host", "--allow-flag-override",
    "--rootless", "--net-raw", "--iouring", "--directfs=false", "--character-device-policy=passthrough",
)  # fmt: skip
#: One that a sandbox starts with.
_HARMLESS: Final = "--net-raw"


#: Why settings are refused that have such flags; what else may keep a daemon from its start says nothing of them.
_REASONS: Final = ("unknown field", "No such file or directory")


def _settings(daemon: private.PrivateDaemon) -> Mapping[str, str]:
    """Ways to tell the daemon of flags, each a whole file of settings."""
    plain = daemon.settings.read_text()
    runsc = f'runsc = "{daemon.paths.runsc}"'
    flags = f"{list(_FLAGS)}"
    return {
        "a section of runsc's": f"{plain}\n[runsc]\nflags = {flags}\n",
        "a section of sandboxes'": f"{plain}\n[sandbox]\nrunsc_flags = {flags}\n",
        "a key among the paths": plain.replace(runsc, f"{runsc}\nrunsc_flags = {flags}"),
        "a path with words behind it": plain.replace(runsc, f'runsc = "{daemon.paths.runsc} {" ".join(_FLAGS)}"'),
        "a key of a principal's": f"{plain}\nrunsc_flags = {flags}\n",
        "a pool's": f'{plain}\n[[pool]]\nprincipal = "default"\nflags = {flags}\n',
    }


async def _by_settings(_: Ground) -> Run:
    """No daemon may start with any of them."""
    daemon = private.PrivateDaemon("flags", {"default": ("developer",)})
    refused, started = [], []
    try:
        for way, text in _settings(daemon).items():
            daemon.settings.write_text(text)
            try:
                await asyncio.to_thread(daemon.start)
            except private.DaemonFailedError:
                why = "".join(daemon.log_tail()[-1:])
                if not any(reason in why for reason in _REASONS):
                    return Run(began=True, finished=False, fault=f"{way}: {why[-160:]}")
                refused.append(way)
            else:
                started.append(way)
                await asyncio.to_thread(daemon.stop)
    finally:
        daemon.remove()
    return Run(
        began=True,
        finished=True,
        found=f"the daemon starts with {', '.join(started)}" if started else "",
        layer=f"the settings: {len(refused)} ways refused before anything starts",
    )


@contextlib.contextmanager
def environment() -> Iterator[None]:
    """With variables as a tool that takes flags from them would read: of every daemon that starts meanwhile."""
    names = (VARIABLE, "RUNSC_FLAGS", "RUNSC_OPTIONS", "GVISOR_FLAGS")
    os.environ.update(dict.fromkeys(names, _HARMLESS))
    try:
        yield
    finally:
        for name in names:
            del os.environ[name]


async def _of(daemon: private.PrivateDaemon) -> Run:
    """It has the variables, and is asked for a sandbox, whose sentry's and gofer's command lines are looked at."""
    async with sandboxed(daemon):
        lines = _command_lines(daemon.run)
    unsafe = sorted({word for words in lines for word in words if word.split("=")[0] in _NAMES})
    return Run(
        began=len(lines) > 1,
        finished=True,
        found=f"runsc runs with {', '.join(unsafe)}" if unsafe else "",
        layer="runsc's command line: written from what the code has",
    )


async def _by_environment(on: Ground) -> Run:
    assert on.daemon is not None  # noqa: S101 - only a control has none
    return await _of(on.daemon)


async def _taken(on: Ground) -> Run:
    return await _of(await mutant(on))


#: `--network` is among them by its value alone.
_NAMES: Final = {flag.split("=")[0] for flag in _FLAGS} - {"--network"}


def _command_lines(run: pathlib.Path) -> list[list[str]]:
    """Of all processes that are around a guest and have one."""
    read = [pathlib.Path(f"/proc/{pid}/cmdline").read_text(errors="replace") for pid in posture.around(run)]
    return [line.split("\0") for line in read if line]


FLAGGED = (
    Trial(
        id="SY-14", boundary=Boundary.SYSCALL, severity=Severity.ESCAPE,
        title="unsafe flags of runsc by the daemon's settings or environment: TESTONLY-*, profile, host-uds,"
        " network=host, allow-flag-override, rootless and more",
        attacks=("T1562", "T1611"),
        breach="the daemon starts with them in its settings, or runsc's processes have one in their command lines",
        control="mut: a daemon whose runsc takes flags from the environment",
        attempts=(_by_settings, _by_environment), weak=_taken,
    ),
)  # fmt: skip
