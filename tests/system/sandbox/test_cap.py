"""As many sandboxes as the cap says, and not one more, however many are asked for at once."""

import asyncio

import pytest

from opensafe import errors
from opensafe.client import SandboxSize

pytestmark = [pytest.mark.root, pytest.mark.runsc]

CAP = 12
SMALL = SandboxSize(memory_bytes=128 << 20)


@pytest.fixture(scope="module")
def settings():
    return {"caps": f"sandboxes = {CAP}"}


async def test_r65_creates_that_overlap_fill_the_cap_and_exceed_it_by_none(agent, session):
    numbers = iter(range(CAP))

    async def some():
        return [(await agent.create_sandbox(session, size=SMALL)).sandbox_id for _ in numbers]

    made = [one for some_made in await asyncio.gather(*(some() for _ in range(4))) for one in some_made]
    assert len(set(made)) == CAP
    with pytest.raises(errors.LimitExceeded):
        await agent.create_sandbox(session, size=SMALL)
    for one in made:
        await agent.delete_sandbox(one)


async def test_r65_more_creates_at_once_than_the_cap_are_refused_beyond_it(agent, session):
    answers = await asyncio.gather(
        *(agent.create_sandbox(session, size=SMALL) for _ in range(CAP + 3)), return_exceptions=True
    )
    assert [type(one) for one in answers if isinstance(one, BaseException)] == [errors.LimitExceeded] * 3
