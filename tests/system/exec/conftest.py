import pytest

from tests.system.exec.support import Place


@pytest.fixture
def place(daemon, agent, session, sandbox):
    return Place(daemon, agent, session, sandbox)
