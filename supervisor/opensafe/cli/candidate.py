"""A bundle that is to be tried offline: all that a daemon checks, but for the signature, which only it needs."""

import pathlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opensafe.policy.manifest import Bundle


def open_candidate(path: pathlib.Path) -> "Bundle":
    """The bundle in the file. Raises BundleRefused."""
    from opensafe.policy import archive
    from opensafe.policy.bundle import check
    from opensafe.policy.manifest import ALLOWED

    return check(archive.unpack(archive.read_file(path), ALLOWED))
