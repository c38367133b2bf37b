import pytest

from tests.harness.policy import site_bundle


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """Signed bundles by name: the one in force, the same under a higher number, and one that knows no `echo`."""
    directory = tmp_path_factory.mktemp("bundles")
    active, key = site_bundle(directory)
    same, _ = site_bundle(directory, number=2)
    stricter, _ = site_bundle(directory, number=3, change=lambda data: data["programs"]["ordinary"].pop("echo"))
    return {"active": active, "same": same, "stricter": stricter, "key": key}


@pytest.fixture(scope="module")
def settings(bundles):
    """The first of them is in force."""
    return {"bundle": bundles["active"], "key": bundles["key"]}
