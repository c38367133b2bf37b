import pytest

from tests.harness.daemon import Daemon, running


@pytest.fixture(scope="module")
def settings():
    """What the daemon of a file is made with, for a file to say otherwise (see Daemon)."""
    return {}


@pytest.fixture(scope="module")
def daemon(settings):
    """One daemon for the tests of a file that don't stop it."""
    with running(**settings) as daemon:
        yield daemon


@pytest.fixture
def own_daemon():
    """A daemon of the test's own, to be killed at will. Made by a call, with settings if wanted."""
    made = []

    def make(**settings):
        made.append(Daemon(**settings))
        return made[-1].start()

    yield make
    for daemon in made:
        daemon.kill()
        if daemon.leftovers():  # what a kill leaves, the next start removes
            daemon.start()
            daemon.stop()
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
