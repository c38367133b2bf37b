import importlib.util
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from opensafe.client import Client

_spec = importlib.util.spec_from_file_location("daemon_double", Path(__file__).with_name("daemon_double.py"))
daemon_double = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(daemon_double)


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
