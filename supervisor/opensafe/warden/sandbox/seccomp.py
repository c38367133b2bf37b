"""Profiles compiled to classic BPF by libseccomp, once per process, and handed over through pipes.

Argument rules are lists of what is allowed, never of what is not: libseccomp compares 64 bits where the kernel
looks at 32, so "anything but X" would let 0x1_0000_0000 + X pass. What equals an allowed value is allowed.
"""

import contextlib
import errno
import functools
import os
import platform
import tempfile
from collections.abc import Iterator
from typing import Final

import pyseccomp

from ...errors import HostUnsuitable, InvalidArgument
from .profiles import GUARD, PROFILES, Profile

#: Answer of what is in no list: see profiles.py.
DENIED: Final = errno.EXDEV

# linux/sched.h: CLONE_NEWCGROUP, NEWIPC, NEWNET, NEWNS, NEWPID, NEWUSER, NEWUTS.
_CLONE_NEW: Final = 0x7E020000
_LOW_32_BITS: Final = 0xFFFFFFFF
_BINARY_TREE: Final = 2

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

#: x86-64 numbers of calls that are newer than the oldest libseccomp supported (2.5.4).
_NUMBERS: Final = {
    "cachestat": 451,
    "fchmodat2": 452,
    "map_shadow_stack": 453,
    "statmount": 457,
    "listmount": 458,
    "mseal": 462,
    "quotactl_fd": 443,
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
    return _compile(Profile(allowed=GUARD), denied=errno.EPERM)


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
    made = pyseccomp.SyscallFilter(pyseccomp.ERRNO(denied))
    made.set_attr(pyseccomp.Attr.ACT_BADARCH, pyseccomp.ERRNO(denied))
    made.set_attr(pyseccomp.Attr.CTL_OPTIMIZE, _BINARY_TREE)
    for action, names in (
        (pyseccomp.ALLOW, profile.allowed),
        (pyseccomp.ERRNO(errno.ENOSYS), profile.unavailable),
        (pyseccomp.KILL_PROCESS, profile.fatal),
    ):
        for name in sorted(names):
            made.add_rule(action, _NUMBERS.get(name, name))
    for name in sorted(profile.conditional):
        for conditions in _argument_rules(name):
            made.add_rule(pyseccomp.ALLOW, name, *conditions)
    with tempfile.TemporaryFile() as file:
        made.export_bpf(file)
        file.seek(0)
        return file.read()


def _argument_rules(name: str) -> Iterator[tuple[pyseccomp.Arg, ...]]:
    match name:
        case "clone":
            yield (pyseccomp.Arg(0, pyseccomp.MASKED_EQ, _CLONE_NEW, 0),)
        case "personality":
            for value in _PERSONALITIES:
                yield (_low(0, value),)
        case "prctl":
            for value in _PRCTLS.values():
                yield (_low(0, value),)
        case "ioctl":
            for value in _IOCTLS.values():
                yield (_low(1, value),)
        case "socket":
            for family in (_AF_UNIX, _AF_INET, _AF_INET6):
                for kind in (_SOCK_STREAM, _SOCK_DGRAM, _SOCK_SEQPACKET):
                    yield (_low(0, family), pyseccomp.Arg(1, pyseccomp.MASKED_EQ, _SOCK_TYPE_MASK, kind))
            yield (_low(0, _AF_NETLINK), _low(2, _NETLINK_ROUTE))
        case "socketpair":
            yield (_low(0, _AF_UNIX),)
        case _:
            raise ValueError(f"{name} has no argument rules")


def _low(index: int, value: int) -> pyseccomp.Arg:
    return pyseccomp.Arg(index, pyseccomp.MASKED_EQ, _LOW_32_BITS, value)
