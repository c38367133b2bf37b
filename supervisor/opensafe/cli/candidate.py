"""A bundle that is to be tried offline: all that a daemon checks, but for the signature, which only it needs."""

import hashlib
import pathlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opensafe.policy.manifest import Bundle


def open_candidate(path: pathlib.Path) -> "Bundle":
    """The bundle in the file, with its digest. `key` is what its signature names, unverified. Raises BundleRefused."""
    import msgspec

    from opensafe.policy import archive
    from opensafe.policy.bundle import check
    from opensafe.policy.manifest import ALLOWED
    from opensafe.policy.sign import named

    content = archive.read_file(path)
    members = archive.unpack(content, ALLOWED)
    return msgspec.structs.replace(check(members), digest=hashlib.sha256(content).hexdigest(), key=named(members))
