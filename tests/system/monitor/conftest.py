import os

import pytest
import pytest_asyncio

from tests.system.monitor.support import Watched, shipped_policy


def pytest_collection_modifyitems(items):
    for item in items:
        if "system/monitor" in str(item.path):
            item.add_marker(pytest.mark.root)
            item.add_marker(pytest.mark.runsc)
            if os.geteuid() != 0:
                item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.fixture(scope="session")
def policy():
    policy = shipped_policy()
    yield policy
    policy.engine.close()


@pytest_asyncio.fixture
async def make(policy):
    """Makes what the test wants to watch, or (watched=False) does not."""
    made = []

    def one(**settings):
        made.append(Watched(policy, **settings))
        return made[-1]

    yield one
    for watched in made:
        await watched.close()
