import pytest

from tests.harness.daemon import running


@pytest.fixture(scope="package")
def daemon():
    """One daemon for all of these tests but those that stop it."""
    with running(staffed=True) as daemon:
        yield daemon


@pytest.fixture
def database(tmp_path):
    return tmp_path / "runs.sqlite"
