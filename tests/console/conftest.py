"""A browser for each file. It is driven from the file's loop, which is that of all tests here; a fixture that touches
pages asks for it with `pytest_asyncio.fixture(loop_scope="module")`.
"""

from pathlib import Path

import pytest
import pytest_asyncio

from tests.harness.browser import People, chromium

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


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
