import pytest

from tests.harness.daemon import Daemon, running


@pytest.fixture(scope="module")
def daemon():
    """One daemon for the tests of a file that don't stop it."""
    with running() as daemon:
        yield daemon


@pytest.fixture
def own_daemon():
    """A daemon of the test's own, to be killed at will. Made by a call, with caps if wanted."""
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
async def session(agent):
    session = await agent.create_session("tester")
    yield session
    await agent.close_session(session)


@pytest.fixture
async def sandbox(agent, session):
    return (await agent.create_sandbox(session)).sandbox.sandbox_id
