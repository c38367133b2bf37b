import pytest_asyncio

from opensafe.proof.world import World


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world():
    """An internet of the file's own. It is read by a task of the module's loop, which its tests have to share."""
    async with World.open() as opened:
        yield opened
