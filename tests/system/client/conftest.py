import pytest

from opensafe.client import AsyncSandbox, Sandbox
from tests.harness.daemon import running


@pytest.fixture(scope="package")
def daemon():
    """One daemon for all of these tests but those that end theirs."""
    with running() as daemon:
        yield daemon


@pytest.fixture
def box(daemon):
    with Sandbox.create("tester", socket=daemon.socket_of("agent")) as box:
        yield box


@pytest.fixture
async def async_box(daemon):
    async with AsyncSandbox.create("tester", socket=daemon.socket_of("agent")) as box:
        yield box
