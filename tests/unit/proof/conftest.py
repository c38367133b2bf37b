import pathlib

import pytest

from opensafe.policy.bundle import load
from opensafe.policy.keys import trust_files
from opensafe.proof import private


@pytest.fixture(scope="session")
def cases():
    """The directory of the data set."""
    return private.policies() / "cases"


@pytest.fixture(scope="session")
def shipped():
    """The bundle that the set-up built, which the command judges with."""
    return load(pathlib.Path(private.programs().bundle), trusted=trust_files([private.trusted_key()]))
