"""Policy for daemons of the suite's own: the shipped rules, by which one may be refused as often as a suite is.

A probe is refused more often than honest work ever is. What is asked here is whether any of it gets through, and not
when its principal would be shut out.
"""

import pathlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from opensafe.policy.manifest import CONFIG
from opensafe.proof import private
from opensafe.proof.signed import SignedBundles

Change = Callable[[dict[str, Any]], None]
"""Changes settings in place."""

#: More than all probes of a boundary are refused.
_BLOCKS: Final = 10_000


def settings(bundles: SignedBundles, change: Change = lambda _: None) -> bytes:
    """The shipped ones as the member of a bundle. change: of more of them than the ceiling."""
    shipped = msgspec.json.decode(bundles.members[CONFIG])
    shipped["ceilings"]["blocks_in_ten_minutes"] = _BLOCKS
    change(shipped)
    return msgspec.json.encode(shipped, order="sorted")


def patient(directory: pathlib.Path, change: Change = lambda _: None) -> SignedBundles:
    """One with these settings, in place in a directory that has none yet."""
    bundles = SignedBundles(directory, pathlib.Path(private.programs().bundle))
    bundles.put(bundles.next({CONFIG: settings(bundles, change)})[0])
    return bundles
