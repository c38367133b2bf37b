"""Faults of our own code that the boundary's controls need, all in one daemon: each is of a check of its own."""

import contextlib
import pathlib
import tempfile
from collections.abc import AsyncIterator
from typing import Final

from opensafe.proof import private
from opensafe.proof.escape.bundles import patient
from opensafe.proof.escape.ground import Ground, daemon
from opensafe.proof.mutants import Mutant, planted

#: What TAKING reads.
VARIABLE: Final = "OPENSAFE_RUNSC_FLAGS"

NO_ARGUMENTS: Final = Mutant(
    id="arguments",
    file="warden/sandbox/seccomp.py",
    old="verdicts.update((NUMBERS[name], BY_ARGUMENT[name]) for name in profile.conditional)",
    new="verdicts.update((NUMBERS[name], bpf.ALLOW) for name in profile.conditional)",
    says="calls that have rules for their arguments are allowed with any",
)
COPYING: Final = (
    Mutant(
        id="annotations-subject",
        file="model/sandbox.py",
        old="    limits: SandboxLimits = SandboxLimits()\n\n    def subject_digest",
        new="    limits: SandboxLimits = SandboxLimits()\n    labels: dict[str, str] = {}\n\n    def subject_digest",
    ),
    Mutant(
        id="annotations-asked",
        file="control/sandboxes.py",
        old="                limits=wanted.limits,\n            )\n",
        new="                limits=wanted.limits,\n                labels=wanted.labels,\n            )\n",
    ),
    Mutant(
        id="annotations-copied",
        file="warden/sandbox/spec.py",
        old='        "hostname": HOSTNAME,\n',
        new='        "hostname": HOSTNAME,\n        "annotations": dict(spec.labels),\n',
        says="labels of whoever asks for a sandbox become annotations of its specification",
    ),
)
TAKING: Final = Mutant(
    id="flags",
    file="warden/sandbox/runsc.py",
    old='            "--host-settings=ignore",\n',
    new=f'            "--host-settings=ignore", *__import__("os").environ.get("{VARIABLE}", "").split(),\n',
    says="runsc's command line takes flags from outside of the code",
)


async def mutant(on: Ground) -> private.PrivateDaemon:
    """The daemon that has all of them; made once for all who ask."""
    return await on.kept("mutant", _mutated)


@contextlib.asynccontextmanager
async def _mutated() -> AsyncIterator[private.PrivateDaemon]:
    with planted(NO_ARGUMENTS, *COPYING, TAKING) as source, tempfile.TemporaryDirectory() as made:
        async with daemon("mutant", patient(pathlib.Path(made)), source=source) as started:
            yield started
