"""Profiles compiled to classic BPF, once per process, and handed over through pipes.

Argument rules are lists of what is allowed, never of what is not, and look at the low 32 bits, as the kernel does for
an int: whatever stands above them, the call is judged by what it will mean. libseccomp makes the same decisions from
the same tables, which a test holds against each other.
"""

import contextlib
import errno
import functools
import os
import platform
from collections.abc import Iterable, Iterator
from typing import Final

from ...errors import HostUnsuitable, InvalidArgument
from . import bpf
from .profiles import GUARD, PROFILES, Profile
from .syscalls import NUMBERS

#: Answer of what is in no list: see profiles.py.
DENIED: Final = errno.EXDEV

# linux/sched.h: CLONE_NEWCGROUP, NEWIPC, NEWNET, NEWNS, NEWPID, NEWUSER, NEWUTS.
_CLONE_NEW: Final = 0x7E020000
# linux/audit.h
_AUDIT_ARCH_X86_64: Final = 0xC000003E
#: The highest number for which a sentry runs the filter when it is installed (bpf.py).
_SENTRY_NUMBERS: Final = 2000

# linux/socket.h
_SOL_PACKET = 263
# sys/socket.h
_AF_INET, _AF_INET6, _AF_NETLINK, _AF_UNIX = 2, 10, 16, 1
_SOCK_DGRAM, _SOCK_SEQPACKET, _SOCK_STREAM = 2, 5, 1
_SOCK_TYPE_MASK: Final = 0xF
_NETLINK_ROUTE: Final = 0

# sys/personality.h: PER_LINUX, and "tell me".
_PERSONALITIES: Final = (0x0, 0xFFFFFFFF)

#: linux/prctl.h. Left out: SET_CHILD_SUBREAPER (36), with which a guest can end its whole sandbox; SET_SECCOMP, SET_MM.
_PRCTLS: Final = {
    "PR_SET_PDEATHSIG": 1,
    "PR_GET_PDEATHSIG": 2,
    "PR_GET_DUMPABLE": 3,
    "PR_SET_DUMPABLE": 4,
    "PR_GET_KEEPCAPS": 7,
    "PR_SET_NAME": 15,
    "PR_GET_NAME": 16,
    "PR_GET_SECCOMP": 21,
    "PR_CAPBSET_READ": 23,
    "PR_SET_TIMERSLACK": 29,
    "PR_GET_TIMERSLACK": 30,
    "PR_GET_CHILD_SUBREAPER": 37,
    "PR_SET_NO_NEW_PRIVS": 38,
    "PR_GET_NO_NEW_PRIVS": 39,
    "PR_SET_THP_DISABLE": 41,
    "PR_GET_THP_DISABLE": 42,
    "PR_CAP_AMBIENT": 47,
    "PR_SET_VMA": 0x53564D41,
}

#: asm-generic/ioctls.h, linux/sockios.h, linux/fs.h. Left out above all: TIOCSTI and TIOCLINUX, which type for others.
_IOCTLS: Final = {
    "TCGETS": 0x5401,
    "TCSETS": 0x5402,
    "TCSETSW": 0x5403,
    "TCSETSF": 0x5404,
    "TCSBRK": 0x5409,
    "TCXONC": 0x540A,
    "TCFLSH": 0x540B,
    "TIOCSCTTY": 0x540E,
    "TIOCGPGRP": 0x540F,
    "TIOCSPGRP": 0x5410,
    "TIOCOUTQ": 0x5411,
    "TIOCGWINSZ": 0x5413,
    "TIOCSWINSZ": 0x5414,
    "FIONREAD": 0x541B,
    "TIOCPKT": 0x5420,
    "FIONBIO": 0x5421,
    "TIOCNOTTY": 0x5422,
    "TIOCGSID": 0x5429,
    "FIONCLEX": 0x5450,
    "FIOCLEX": 0x5451,
    "FIOASYNC": 0x5452,
    "TIOCGPTN": 0x80045430,
    "TIOCSPTLCK": 0x40045431,
    "TIOCGPTPEER": 0x5441,
    "SIOCGIFNAME": 0x8910,
    "SIOCGIFCONF": 0x8912,
    "SIOCGIFFLAGS": 0x8913,
    "SIOCGIFADDR": 0x8915,
    "SIOCGIFBRDADDR": 0x8919,
    "SIOCGIFNETMASK": 0x891B,
    "SIOCGIFMTU": 0x8921,
    "SIOCGIFHWADDR": 0x8927,
    "SIOCGIFINDEX": 0x8933,
    "FICLONE": 0x40049409,
    "FS_IOC_GETFLAGS": 0x80086601,
}


def _only(index: int, allowed: Iterable[int], mask: int = bpf.WORD) -> bpf.Switch:
    """Refuse all values of an argument but these."""
    return bpf.Switch(bpf.argument(index), dict.fromkeys(allowed, bpf.ALLOW), bpf.errno(DENIED), mask)


_SOCKET_TYPE: Final = _only(1, (_SOCK_STREAM, _SOCK_DGRAM, _SOCK_SEQPACKET), mask=_SOCK_TYPE_MASK)
#: The rules of every call that a profile can allow by its arguments.
BY_ARGUMENT: Final = {
    "clone": _only(0, (0,), mask=_CLONE_NEW),
    "ioctl": _only(1, _IOCTLS.values()),
    "personality": _only(0, _PERSONALITIES),
    "prctl": _only(0, _PRCTLS.values()),
    "socket": bpf.Switch(
        bpf.argument(0),
        {
            **dict.fromkeys((_AF_UNIX, _AF_INET, _AF_INET6), _SOCKET_TYPE),
            _AF_NETLINK: _only(2, (_NETLINK_ROUTE,)),
        },
        bpf.errno(DENIED),
    ),
    "socketpair": _only(0, (_AF_UNIX,)),
    "setsockopt": bpf.Switch(bpf.argument(1), {_SOL_PACKET: bpf.ALLOW}, bpf.errno(errno.EPERM)),  # the guard's alone
}


@functools.cache
def program(profile: str) -> bytes:
    """The BPF of a profile, `struct sock_filter` records. Raises InvalidArgument for a name that is none."""
    if profile not in PROFILES:
        raise InvalidArgument(
            "there is no such seccomp profile",
            value=profile,
            limit=", ".join(sorted(PROFILES)),
            remedy="Use one of those.",
        )
    return _compile(PROFILES[profile])


@contextlib.contextmanager
def profile_pipe(profile: str) -> Iterator[int]:
    """A pipe from which the profile's BPF can be read, closed on leaving."""
    with _pipe(program(profile)) as descriptor:
        yield descriptor


@contextlib.contextmanager
def guard_pipe() -> Iterator[int]:
    """A pipe from which the BPF of the host guard filter can be read, closed on leaving."""
    with _pipe(_guard()) as descriptor:
        yield descriptor


@functools.cache
def _guard() -> bytes:
    return _compile(GUARD, denied=errno.EPERM)


@contextlib.contextmanager
def _pipe(content: bytes) -> Iterator[int]:
    end, start = os.pipe2(os.O_CLOEXEC)
    try:
        try:
            # Smaller than a pipe's capacity (64 KiB): a filter has at most 4096 records of 8 bytes.
            os.write(start, content)
        finally:
            os.close(start)
        yield end
    finally:
        os.close(end)


def _compile(profile: Profile, denied: int = DENIED) -> bytes:
    if platform.machine() != "x86_64":
        raise HostUnsuitable("system call numbers are known for x86_64 only", value=platform.machine())
    return bpf.compiled(decisions(profile, denied))


def decisions(profile: Profile, denied: int = DENIED) -> bpf.Switch:
    """What is looked at, in this order: architecture, number, and arguments of the calls that have rules for them.

    Numbers of the x32 interface have bit 30 set, so that they lie above all of a profile's.
    """
    verdicts: dict[int, bpf.Verdict] = {}
    for names, verdict in (
        (profile.allowed, bpf.ALLOW),
        (profile.unavailable, bpf.errno(errno.ENOSYS)),
        (profile.fatal, bpf.KILL_PROCESS),
    ):
        verdicts.update(dict.fromkeys((NUMBERS[name] for name in names), verdict))
    verdicts.update((NUMBERS[name], BY_ARGUMENT[name]) for name in profile.conditional)
    refused = bpf.errno(denied)
    by_number = bpf.Switch(bpf.NUMBER, verdicts, refused, frequent=_SENTRY_NUMBERS)
    return bpf.Switch(bpf.ARCHITECTURE, {_AUDIT_ARCH_X86_64: by_number}, refused)
