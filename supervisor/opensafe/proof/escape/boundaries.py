"""The boundaries of the suite: where each one's probes stand, and how they are run. A boundary is imported when asked
for, because each brings parts that the others do not need.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Final, Protocol, cast

from .probe import Boundary, Probe, Result

#: Module of each one's probes, a sequence PROBES; and the module whose `run` runs them.
_MODULES: Final[Mapping[Boundary, tuple[str, str]]] = {
    Boundary.FILESYSTEM: ("filesystem.probes", "filesystem.running"),
    Boundary.PROCESS: ("process.probes", "process.running"),
    Boundary.SYSCALL: ("syscall.probes", "syscall.running"),
    Boundary.NETWORK: ("network.probes", "network.running"),
    Boundary.CONTROL: ("control.probes", "control.running"),
    Boundary.RESOURCE: ("resource.probes", "resource.running"),
    Boundary.POLICY: ("policy.probes", "policy.running"),
}


class Runner(Protocol):
    """Runs probes of one boundary, each with its control, in their order. Needs root."""

    async def __call__(
        self, probes: Sequence[Probe], *, only_controls: bool, done: Callable[[Result], None]
    ) -> tuple[Result, ...]: ...


def known() -> tuple[Boundary, ...]:
    """Those that have probes, in the order in which they are run."""
    return tuple(boundary for boundary in Boundary if boundary in _MODULES)


def probes(boundary: Boundary) -> tuple[Probe, ...]:
    """All probes of one, in the order of the report."""
    return tuple(_module(_MODULES[boundary][0]).PROBES)


def runner(boundary: Boundary) -> Runner:
    """What runs them."""
    return cast(Runner, _module(_MODULES[boundary][1]).run)


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{__package__}.{name}")
