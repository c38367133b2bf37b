"""The probes of the syscall boundary."""

from .annotations import ANNOTATED
from .filtered import FILTERED
from .flags import FLAGGED
from .kernel import KERNEL
from .posed import POSED

PROBES = (*FILTERED, *KERNEL, *POSED, *ANNOTATED, *FLAGGED)
