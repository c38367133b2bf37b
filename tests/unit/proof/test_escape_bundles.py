"""A bundle of the suite's is in force when the daemon says so, and not when it says nothing any more."""

import time

import pytest

from opensafe.client import BundleSettled, Client
from opensafe.errors import OpenSafeError
from opensafe.proof.escape.bundles import in_force


class Telling(Client):
    """A client whose daemon tells of these revisions, and ends."""

    def __init__(self, *revisions):
        self._revisions = revisions

    async def watch_bundle(self):
        for sequence, revision in enumerate(self._revisions):
            yield BundleSettled(
                sequence=sequence, activated=True, digest="", number=sequence, revision=revision, reason="", took_ms=1
            )


async def test_it_is_in_force_once_the_daemon_tells_of_it():
    before_us = time.time_ns() // 1000
    assert await in_force(Telling("old", "new", "newer"), "new") >= before_us


@pytest.mark.parametrize("revisions", [(), ("old",)])
async def test_a_daemon_that_ends_before_is_an_error(revisions):
    with pytest.raises(OpenSafeError, match="no further bundles"):
        await in_force(Telling(*revisions), "new")
