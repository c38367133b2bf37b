"""What the root process keeps in the state directory for replays: bundles by digest, and the keys that were trusted.

A record can so be judged again on the bundle it names, also after a key was exchanged. Only root writes here.
"""

import pathlib

from opensafe.errors import BundleRefused

_HEX = frozenset("0123456789abcdef")


def archived_path(state: pathlib.Path, digest: str) -> pathlib.Path:
    """The archive file of the bundle with that SHA-256. Raises BundleRefused for what is no digest."""
    if len(digest) != 64 or not set(digest) <= _HEX:
        raise BundleRefused("a bundle is named by its SHA-256", value=digest)
    return state / "bundles" / f"{digest}.tar.gz"


def archived_keys(state: pathlib.Path) -> list[pathlib.Path]:
    """Files of all public keys that a daemon on this state directory ever trusted."""
    return sorted(keys_directory(state).glob("*.pub"))


def keys_directory(state: pathlib.Path) -> pathlib.Path:
    """Where they lie, each under the SHA-256 of its text."""
    return state / "keys"
