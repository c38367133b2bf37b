"""One bundle to prepare, and what comes of it: the messages between an engine's process and the one that prepares."""

from typing import Final

import msgspec

from .manifest import Bundle
from .native import Tier

#: Seconds for one. Cranelift takes about one for a megabyte of WebAssembly.
DEADLINE_S: Final = 4


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One bundle to prepare. keys: trusted public keys in PEM. optimise: by the optimising compiler, however long.

    candidate: it will not be in force, so that nothing is rehearsed with it.
    """

    path: str
    keys: tuple[str, ...]
    cache: str
    optimise: bool = False
    candidate: bool = False


class Prepared(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A bundle without its module's bytes, whose machine code of `tier` lies in the cache."""

    bundle: Bundle
    tier: Tier


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The parts of the BundleRefused that it was."""

    message: str
    value: str
    limit: str
    remedy: str
