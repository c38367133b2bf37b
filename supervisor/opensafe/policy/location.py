"""Where bundles are archived: by digest, so that a record can always be judged again on the bundle it names."""

import pathlib

from opensafe.errors import BundleRefused

_HEX = frozenset("0123456789abcdef")


def archived_path(state: pathlib.Path, digest: str) -> pathlib.Path:
    """The archive file of the bundle with that SHA-256. Raises BundleRefused for what is no digest."""
    if len(digest) != 64 or not set(digest) <= _HEX:
        raise BundleRefused("a bundle is named by its SHA-256", value=digest)
    return state / "bundles" / f"{digest}.tar.gz"
