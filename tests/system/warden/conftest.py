import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
import pytest_asyncio

from opensafe.warden.client import WardenClient
from opensafe.warden.warden import Warden
from tests.system.warden.support import Caller, Front, Host

ROOT = pathlib.Path(__file__).resolve().parents[3]


def pytest_collection_modifyitems(items):
    for item in items:
        if "system/warden" in str(item.path):
            item.add_marker(pytest.mark.root)
            item.add_marker(pytest.mark.runsc)
            if os.geteuid() != 0:
                item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.fixture(scope="session")
def native():
    """A fresh build of native/."""
    out = pathlib.Path(tempfile.mkdtemp(prefix="opensafe-test-native-", dir="/run"))
    out.chmod(0o755)
    subprocess.run(["make", "-s", "-C", ROOT / "native", f"OUT={out}", "all"], check=True)
    yield out
    shutil.rmtree(out)


@pytest.fixture(scope="module")
def host(native):
    """Directories of one daemon. At the end nothing of that daemon may be left anywhere."""
    host = Host(native)
    yield host
    left = host.leftovers()
    host.remove()
    assert left == []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def warden(host):
    async with await Warden.start(host.config) as warden:
        yield warden


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(warden):
    client = WardenClient(warden.connect())
    yield client
    await client.close()


@pytest.fixture(scope="module")
def front(warden):
    return Front(warden.audit)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(client, front):
    """A sandbox that a module's tests share."""
    caller = await Caller(client, front).create()
    yield caller
    if any(one.sandbox_id == caller.spec.sandbox_id for one in await client.list_sandboxes()):
        await caller.delete()
