"""The probes of the syscall boundary."""

from .filtered import FILTERED

PROBES = (*FILTERED,)
