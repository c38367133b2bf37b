import pytest

from tests.harness.daemon import Daemon
from tests.harness.policy import site_bundle


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """Signed bundles by name: the one in force, the same under a higher number, and one that knows no `echo`."""
    directory = tmp_path_factory.mktemp("bundles")
    active, key = site_bundle(directory)
    same, _ = site_bundle(directory, number=2)
    stricter, _ = site_bundle(directory, number=3, change=lambda data: data["programs"]["ordinary"].pop("echo"))
    return {"active": active, "same": same, "stricter": stricter, "key": key}


@pytest.fixture(scope="module")
def daemon(bundles):
    """A daemon with the first of them in force."""
    daemon = Daemon(bundle=bundles["active"], key=bundles["key"]).start()
    yield daemon
    assert daemon.stop() == 0
    assert daemon.remove() == []


@pytest.fixture
async def agent(daemon):
    async with daemon.client() as client:
        yield client


@pytest.fixture
async def reviewer(daemon):
    async with daemon.client("reviewer") as client:
        yield client


@pytest.fixture
async def session(agent):
    session = await agent.create_session("tester")
    yield session
    await agent.close_session(session)


@pytest.fixture
async def sandbox(agent, session):
    return (await agent.create_sandbox(session)).sandbox_id
