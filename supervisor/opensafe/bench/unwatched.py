"""A sandbox as the daemon makes them, with nothing around it: no front, no monitor, no ledger.

What runs here raw is the baseline. Programs may be started in it that the daemon knows nothing of, which in one of its
own sandboxes the monitor would take for what they are.
"""

import contextlib
import pathlib
import secrets
import shutil
from collections.abc import AsyncIterator

import msgspec

from opensafe.config import Paths
from opensafe.model.ids import new_id
from opensafe.model.limits import SandboxLimits
from opensafe.model.sandbox import SandboxSpec
from opensafe.warden.network import namespaces
from opensafe.warden.sandbox import reconcile
from opensafe.warden.sandbox.control import ControlDriver
from opensafe.warden.sandbox.layout import Layout
from opensafe.warden.sandbox.lifecycle import Lifecycle
from opensafe.warden.sandbox.limits import Hierarchies
from opensafe.warden.sandbox.runsc import Runsc
from opensafe.warden.sandbox.state import State

_TEMPLATE = "base"
_PRIVATE = 0o700


class Unwatched(msgspec.Struct, frozen=True):
    """Where it is."""

    layout: Layout
    sandbox_id: str

    @property
    def control(self) -> pathlib.Path:
        """Its sentry's control socket."""
        return self.layout.control_socket(self.sandbox_id)

    @property
    def rootfs(self) -> pathlib.Path:
        """Its image's root on the host."""
        return self.layout.images / _TEMPLATE / "rootfs"


@contextlib.asynccontextmanager
async def sandbox(paths: Paths) -> AsyncIterator[Unwatched]:
    """Make one with the programs of `paths`, in directories of its own, and remove both. Needs root.

    Raises SandboxStartFailed, HostUnsuitable, OSError.
    """
    unique = secrets.token_hex(4)
    run = pathlib.Path(f"/run/opensafe-bench-bare-{unique}")
    layout = Layout.of(msgspec.structs.replace(paths, run=str(run), state=str(run / "state")))
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, run)
        for directory in (layout.runsc_root, layout.bundles, layout.state):
            directory.mkdir(mode=_PRIVATE, parents=True)
        hierarchies = Hierarchies.find(unique)
        hierarchies.prepare()
        stack.callback(hierarchies.remove_parents)
        state = State(layout.state / "warden.db")
        stack.callback(state.close)
        stack.callback(reconcile.detach_mounts, layout)
        await namespaces.create(layout.gofers_namespace)
        lifecycle = Lifecycle(layout, hierarchies, state, Runsc(layout), ControlDriver(layout), limit=1)
        stack.push_async_callback(lifecycle.close)
        spec = SandboxSpec(
            sandbox_id=new_id("sb"), image_digest=lifecycle.images.find(_TEMPLATE).digest, limits=SandboxLimits()
        )
        with lifecycle.reserved(spec):
            await lifecycle.create(spec)
        yield Unwatched(layout, spec.sandbox_id)
