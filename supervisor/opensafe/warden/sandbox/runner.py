"""How the guest runner (native/guest/run.c) is told what to run: on its command line, or later by a packet."""

import contextlib
import os
import struct
from collections.abc import Mapping
from typing import Final

from ...model.sandbox import Launch, User
from . import layout
from .driver import GuestProgram

REPORT_FD: Final = 3
FILTER_FD: Final = 4
TERMINAL_FD: Final = 5
COMMAND_FD: Final = 5

#: native/guest/command.h: number of words, number of variables. The same limits stand there.
_HEAD: Final = struct.Struct("<II")
_PACKET_MAX: Final = 64 * 1024
_WORDS_MAX: Final = 2048
_NOTHING: Final[Mapping[str, str]] = {}


def guest_program(
    launch: Launch,
    streams: Mapping[int, int],
    *,
    report: int,
    filtered: int | None,
    environment: Mapping[str, str] = _NOTHING,
) -> GuestProgram:
    """The runner's own command line for a launch. Without a filter only for the self-test's control.

    environment: of the sandbox's own, which the launch's goes before.
    """
    descriptors = {**streams, REPORT_FD: report}
    options: list[object] = []
    if filtered is not None:
        options += ["--filter-fd", FILTER_FD]
        descriptors[FILTER_FD] = filtered
    if launch.terminal is not None:
        options += ["--terminal-fd", TERMINAL_FD]
    return _program([*options, *_command(launch)], _environment(launch, environment), descriptors, launch.user)


def waiting_program(*, report: int, filtered: int, command: int) -> GuestProgram:
    """A runner that gets everything that is a call's own by `packet`, on the socket `command`, streams included."""
    descriptors = {REPORT_FD: report, FILTER_FD: filtered, COMMAND_FD: command}
    return _program(["--filter-fd", FILTER_FD, "--command-fd", COMMAND_FD], (), descriptors)


def packet(launch: Launch, environment: Mapping[str, str] = _NOTHING) -> bytes | None:
    """What a runner that waits is sent for a launch; None for one that is too large for that."""
    words, variables = _command(launch), _environment(launch, environment)
    if len(words) + len(variables) > _WORDS_MAX:
        return None
    text = "".join(f"{word}\0" for word in (*words, *variables)).encode()
    whole = _HEAD.pack(len(words), len(variables)) + text
    return whole if len(whole) <= _PACKET_MAX else None


def _program(
    options: list[object], env: tuple[str, ...], descriptors: Mapping[int, int], user: User | None = None
) -> GuestProgram:
    identity: dict[str, object] = {
        "--uid": user.uid if user else layout.COMMAND_UID,
        "--gid": user.gid if user else layout.COMMAND_GID,
        **({"--groups": ",".join(map(str, user.groups))} if user and user.groups else {}),
        "--runner-uid": layout.SUPERVISOR_UID,
        "--report-fd": REPORT_FD,
    }
    words = [word for option in identity.items() for word in option]
    return GuestProgram(
        argv=(f"{layout.GUEST_TOOLS}/run", *(str(word) for word in (*words, *options))),
        env=env,
        cwd="/",
        # The last empties the bounding set: an execve as uid 0 is then held down by more than no_new_privs.
        capabilities=("CAP_SETGID", "CAP_SETUID", *(("CAP_SETPCAP",) if user and user.uid == 0 else ())),
        descriptors=descriptors,
    )


def _command(launch: Launch) -> tuple[str, ...]:
    limits = launch.limits
    rlimits = {
        "NPROC": limits.processes,
        "AS": limits.address_space_bytes,
        "FSIZE": limits.file_size_bytes,
        "NOFILE": limits.open_files,
        "CORE": 0,
    }
    limited = (word for name, value in rlimits.items() for word in ("--rlimit", f"{name}={value}"))
    return ("--cwd", launch.program.cwd, *limited, "--", *launch.program.argv)


def _environment(launch: Launch, more: Mapping[str, str]) -> tuple[str, ...]:
    # The sentry adds root's HOME where there is none.
    environment = {"HOME": layout.WORKSPACE, **more, **launch.program.env}
    return tuple(f"{name}={value}" for name, value in environment.items())


def pipe(reading: contextlib.ExitStack, writing: contextlib.ExitStack) -> tuple[int, int]:
    """Both ends of a pipe, each closed by a stack."""
    start, end = os.pipe2(os.O_CLOEXEC)
    reading.callback(os.close, start)
    writing.callback(os.close, end)
    return start, end
