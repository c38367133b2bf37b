import pytest

from tests.system.mcp.proxy_support import site


@pytest.fixture(scope="session")
def site_of_servers(tmp_path_factory):
    """What a daemon is made with whose site knows the tools of servers behind the proxy."""
    bundle, key = site(tmp_path_factory.mktemp("site"))
    return {"bundle": bundle, "key": key}
