"""Policy for daemons of the suite's own: the shipped rules, by which one may be refused as often as a suite is.

A probe is refused more often than honest work ever is. What is asked here is whether any of it gets through, and not
when its principal would be shut out.
"""

import asyncio
import pathlib
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from opensafe.client import Client
from opensafe.errors import OpenSafeError
from opensafe.policy.manifest import CONFIG
from opensafe.proof import private
from opensafe.proof.signed import SignedBundles

Change = Callable[[dict[str, Any]], None]
"""Changes settings in place."""

#: More than all probes of a boundary are refused.
_BLOCKS: Final = 10_000
_SETTLE_S: Final = 15.0


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


async def in_force(client: Client, revision: str) -> int:
    """When the daemon said that the bundle put in place is in force, UTC microseconds.

    Raises TimeoutError, and OpenSafeError where the daemon says nothing more.
    """
    async with asyncio.timeout(_SETTLE_S):
        async for settled in client.watch_bundle():
            if settled.revision == revision:
                return time.time_ns() // 1000
    raise OpenSafeError("the daemon told of no further bundles", value=revision)
