import contextlib
import os

import msgspec
import pytest

from opensafe.config import PoolSettings
from opensafe.image import place
from opensafe.warden.client import WardenClient
from opensafe.warden.warden import Warden
from tests.system.pool.support import PROBE, Tenants
from tests.system.warden.conftest import native
from tests.system.warden.support import Front, Host

__all__ = ["native"]


def pytest_collection_modifyitems(items):
    for item in items:
        if "system/pool" in str(item.path):
            item.add_marker(pytest.mark.root)
            item.add_marker(pytest.mark.runsc)
            if os.geteuid() != 0:
                item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.fixture
def host(native):
    """Directories of one daemon with an image of its own: nothing but what a sandbox gets mounted, and a shell's place.

    At the end nothing of that daemon may be left anywhere.
    """
    host = Host(native)
    images = host.root / "images"
    runsc = host.root / "runsc"
    runsc.symlink_to(host.config.paths.runsc)
    paths = msgspec.structs.replace(host.config.paths, images=str(images), runsc=str(runsc))
    host.config = msgspec.structs.replace(host.config, paths=paths)
    build(host, "first")
    yield host
    left = host.leftovers()
    host.remove()
    assert left == []


def build(host, text):
    """Build the image anew."""
    with place.staged(host.root / "images", "base") as image:
        (image.rootfs / "etc").mkdir()
        (image.rootfs / "etc/text").write_text(text)


@pytest.fixture
def rebuild():
    return build


@pytest.fixture
async def pool(host):
    """Starts a warden with these entries of the pool, and gives the tenants' hands."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(*entries, **caps):
            slots = msgspec.convert([{"warm_up": PROBE, **entry} for entry in entries], tuple[PoolSettings, ...])
            config = msgspec.structs.replace(host.config, pool=slots)
            config = msgspec.structs.replace(config, caps=msgspec.structs.replace(config.caps, **caps))
            warden = await stack.enter_async_context(await Warden.start(config))
            client = WardenClient(warden.connect())
            stack.push_async_callback(client.close)
            return Tenants(host, client, Front(warden.audit))

        yield start
