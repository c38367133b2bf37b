"""A browser, a daemon and a console for each file that asks for them. The browser is driven from the file's loop, which
is that of all tests here; a fixture that touches pages asks for it with `pytest_asyncio.fixture(loop_scope="module")`.
"""

from pathlib import Path

import pytest
import pytest_asyncio

from tests.harness.browser import People, chromium
from tests.harness.console import Console, Seen
from tests.harness.daemon import running

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE not in item.path.parents:
            continue
        if pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)
        if "daemon" in item.fixturenames:
            item.add_marker(pytest.mark.root)
            item.add_marker(pytest.mark.runsc)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    """Chromium for the tests of a file."""
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def people(browser):
    """Those who open pages in a test (see People); what goes wrong in their pages fails it unless it takes that."""
    people = People(browser)
    yield people
    assert await people.leave() == []


@pytest.fixture(scope="module")
def settings():
    """What the daemon of a file is made with, for a file to say otherwise (see Daemon)."""
    return {}


@pytest.fixture(scope="module")
def daemon(settings):
    """A daemon with the principals agent, other, reviewer (also auditor), second (reviewer) and operator."""
    with running(staffed=True, **settings) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def arguments():
    """What the console of a file is started with beside its sockets, for a file to say otherwise."""
    return ()


@pytest.fixture(scope="module")
def console_process(daemon, arguments):
    """A console as all principals of the daemon."""
    with Console(daemon, ("reviewer", "second", "operator", "agent", "other"), *arguments) as console:
        yield console


@pytest_asyncio.fixture(loop_scope="module")
async def console(console_process, people):
    """That console: `await console.page("/reviews", principal="second", narrow=True, dark=True, language="ja")`."""
    return Seen(console_process, people)


@pytest_asyncio.fixture(loop_scope="module")
async def agent(daemon):
    """A client that may run tools."""
    async with daemon.client() as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def session(agent):
    """A session of the agent, closed afterwards."""
    session = await agent.create_session("tester")
    yield session
    await agent.close_session(session)


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox(agent, session):
    """A sandbox of the session."""
    return (await agent.create_sandbox(session)).sandbox_id
