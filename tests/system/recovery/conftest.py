import contextlib

import pytest

from tests.harness.daemon import running
from tests.system.recovery.support import Mortal, Place


@pytest.fixture(scope="module")
def mortal():
    """One daemon for all deaths of a file: each life clears up after the one before."""
    daemon = Mortal()
    try:
        daemon.start()
        yield daemon
        if daemon.process.poll() is not None:
            daemon.start()
        assert daemon.stop() == 0
        daemon.verified()
    finally:
        bury(daemon)


@pytest.fixture(scope="module")
def neighbour():
    """Another daemon on the same host, which nothing of this concerns."""
    with running() as daemon:
        yield daemon


def bury(daemon):
    """Whatever has become of it, nothing of it stays."""
    daemon.kill()
    if daemon.leftovers():  # what a kill leaves, the next start removes
        daemon.start()
        daemon.stop()
    assert daemon.remove() == []


@contextlib.asynccontextmanager
async def place(daemon):
    """A client with a sandbox."""
    async with daemon.client() as client:
        yield await Place.make(client)
