"""The same filters as libseccomp makes them from the same tables: a second opinion on ours."""

import errno
import tempfile

import pyseccomp

from opensafe.warden.sandbox import bpf, seccomp
from opensafe.warden.sandbox.syscalls import NUMBERS


def program(profile, denied):
    """libseccomp's program for a profile. Numbers are its own where it knows the name."""
    made = pyseccomp.SyscallFilter(pyseccomp.ERRNO(denied))
    made.set_attr(pyseccomp.Attr.ACT_BADARCH, pyseccomp.ERRNO(denied))
    for action, names in (
        (pyseccomp.ALLOW, profile.allowed),
        (pyseccomp.ERRNO(errno.ENOSYS), profile.unavailable),
        (pyseccomp.KILL_PROCESS, profile.fatal),
    ):
        for name in sorted(names):
            made.add_rule(action, number(name))
    for name in sorted(profile.conditional):
        for conditions in _rules(seccomp.BY_ARGUMENT[name]):
            made.add_rule(pyseccomp.ALLOW, name, *conditions)
    with tempfile.TemporaryFile() as file:
        made.export_bpf(file)
        file.seek(0)
        return file.read()


def number(name):
    """libseccomp's number of a call, or ours where it is older than the call."""
    known = pyseccomp.resolve_syscall(pyseccomp.Arch.X86_64, name)
    return known if known >= 0 else NUMBERS[name]


def _rules(switch, before=()):
    """Every way through a switch to ALLOW as libseccomp's comparisons, all of which must hold."""
    for value, verdict in switch.cases.items():
        comparison = pyseccomp.Arg((switch.offset - 16) // 8, pyseccomp.MASKED_EQ, switch.mask, value)
        if verdict == bpf.ALLOW:
            yield (*before, comparison)
        else:
            yield from _rules(verdict, (*before, comparison))
