"""Which socket is found."""

import pytest

from opensafe.client import find_socket
from opensafe.errors import Unavailable


@pytest.fixture
def run(tmp_path):
    for name in ("beta", "default", "operator"):
        directory = tmp_path / "principals" / name
        directory.mkdir(parents=True)
        (directory / "opensafe.sock").touch()
    (tmp_path / "principals" / "alpha").mkdir()
    return tmp_path


def test_the_named_principal_wins(run):
    found = find_socket("beta", environment={"OPENSAFE_SOCKET": "/x.sock"}, run=run)
    assert found == run / "principals" / "beta" / "opensafe.sock"


def test_the_environment_comes_next(run):
    assert str(find_socket(environment={"OPENSAFE_SOCKET": "/x.sock"}, run=run)) == "/x.sock"


@pytest.mark.parametrize(("prefer", "found"), [("default", "default"), ("operator", "operator"), ("none", "beta")])
def test_then_the_preferred_principal_and_then_the_first_with_a_socket(run, prefer, found):
    assert find_socket(prefer=prefer, environment={}, run=run).parent.name == found


def test_nothing_to_find_says_where_it_looked_and_what_to_do(tmp_path):
    with pytest.raises(Unavailable, match=r"principals.*opensafe up"):
        find_socket(environment={}, run=tmp_path)
