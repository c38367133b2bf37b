"""The probes of the syscall boundary."""

from .filtered import FILTERED
from .kernel import KERNEL

PROBES = (*FILTERED, *KERNEL)
