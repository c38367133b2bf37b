from contextlib import AsyncExitStack

import pytest

from opensafe.client import Client
from tests.unit.client import daemon_double


@pytest.fixture
async def start_double():
    """Starts doubles that end with the test."""
    async with AsyncExitStack() as stack:
        yield lambda path: stack.enter_async_context(daemon_double.running(path))


@pytest.fixture
async def daemon(start_double, tmp_path):
    return await start_double(tmp_path / "opensafe.sock")


@pytest.fixture
async def client(daemon):
    async with Client.connect(daemon.path) as connected:
        yield connected
