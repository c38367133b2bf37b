"""The probes of the process boundary."""

from .kernel import KERNEL
from .processes import PROCESSES

PROBES = (*PROCESSES, *KERNEL)
