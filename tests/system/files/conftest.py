import pytest

from opensafe.proof.planting import plant
from tests.harness.daemon import running


@pytest.fixture(scope="package")
def daemon():
    """One daemon for all of these tests, since none of them ends it."""
    with running() as daemon:
        yield daemon


@pytest.fixture
async def files(agent, session, sandbox):
    return agent.files(session, sandbox)


@pytest.fixture
async def shell(agent, session, sandbox, files):
    """shell(text): runs a Python text in the sandbox, to set the scene: a script of its own, as unpacked."""
    count = 0

    async def run(text):
        nonlocal count
        count += 1
        await plant(files, "/tmp/scene.py", text.encode())
        result = await agent.run_call(
            session, sandbox, f"scene-{count}", "Exec", {"argv": ["python3", "/tmp/scene.py"]}
        )
        assert result.outcome.exit_code == 0, (result.verdict.rules, result.outcome, result.stderr)
        return result.stdout

    return run
