"""The file system's probes with all they stand on."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence

from opensafe.proof.escape import host, trial
from opensafe.proof.escape.ground import Ground
from opensafe.proof.escape.probe import Result
from opensafe.proof.escape.trial import Trial

from .scenes import HELD_VARIABLE


async def run(probes: Sequence[Trial], *, only_controls: bool, done: Callable[[Result], None]) -> tuple[Result, ...]:
    """Every probe and its control. Needs root."""
    ground = functools.partial(Ground.open, name="files", only_controls=only_controls)
    with _secret():
        return await trial.run(probes, ground, only_controls=only_controls, done=done)


@contextlib.contextmanager
def _secret() -> Iterator[None]:
    """A nonce in the environment of this process, which all that makes sandboxes come from."""
    os.environ[HELD_VARIABLE] = host.nonce()
    try:
        yield
    finally:
        del os.environ[HELD_VARIABLE]
