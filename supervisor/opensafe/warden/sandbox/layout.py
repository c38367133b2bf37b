"""Where the warden keeps the things it makes, and what is the same for all of its sandboxes.

All paths below come from the configuration and from random ids, never from a caller.
"""

import pathlib
from typing import Final

import msgspec

from ...config import Paths
from ...errors import HostUnsuitable
from ...model.sandbox import OWN_UID

#: The command's user in the guest. It owns /workspace.
COMMAND_UID: Final = OWN_UID
COMMAND_GID: Final = 1000
#: PID 1 and, once it has started its command, the runner: not to be signalled by the command.
SUPERVISOR_UID: Final = 990
#: Where the guest sees the static binaries `init`, `run`, `file` and `probe`.
GUEST_TOOLS: Final = "/.opensafe"
#: Where it sees what it is given to trust. The mount point lies among the binaries, for no image has a place for it.
GUEST_TRUST: Final = f"{GUEST_TOOLS}/trust"
WORKSPACE: Final = "/workspace"

_SOCKET_PATH_MAX: Final = 107
_LONGEST_SOCKET_NAME: Final = len("/runsc-sb-0123456789abcdef0123.sock")


class Layout(msgspec.Struct, frozen=True):
    """Paths of one daemon."""

    state: pathlib.Path
    run: pathlib.Path
    runsc: pathlib.Path
    native: pathlib.Path
    images: pathlib.Path

    @classmethod
    def of(cls, paths: Paths) -> "Layout":
        """Raises HostUnsuitable when the control sockets' paths would be longer than the kernel takes."""
        layout = cls(
            *(pathlib.Path(path) for path in (paths.state, paths.run, paths.runsc, paths.native, paths.images))
        )
        length = len(str(layout.runsc_root)) + _LONGEST_SOCKET_NAME
        if length > _SOCKET_PATH_MAX:
            raise HostUnsuitable(
                "the run directory's path is too long for a control socket in it",
                value=layout.run,
                limit=f"{_SOCKET_PATH_MAX - length + len(str(layout.run))} characters",
                remedy="Set paths.run to a shorter one.",
            )
        return layout

    @property
    def runsc_root(self) -> pathlib.Path:
        """runsc's own state and its control sockets."""
        return self.run / "runsc"

    @property
    def bundles(self) -> pathlib.Path:
        """One OCI bundle directory per sandbox."""
        return self.run / "bundles"

    @property
    def namespaces(self) -> pathlib.Path:
        """One mount point per network namespace."""
        return self.run / "netns"

    @property
    def launch(self) -> pathlib.Path:
        """The confinement step before every process that the warden starts."""
        return self.native / "launch"

    @property
    def guest(self) -> pathlib.Path:
        """The static guest binaries."""
        return self.native / "guest"

    def bundle(self, sandbox_id: str) -> pathlib.Path:
        """Bundle directory of one sandbox."""
        return self.bundles / sandbox_id

    def meminfo(self, sandbox_id: str) -> pathlib.Path:
        """What runsc is shown as /proc/meminfo when it makes the sandbox."""
        return self.bundle(sandbox_id) / "meminfo"

    @property
    def gofers_namespace(self) -> pathlib.Path:
        """An empty network namespace for all gofers; runsc (null_netns.go) joins what it finds there."""
        return self.runsc_root / "null-netns"

    def namespace(self, sandbox_id: str) -> pathlib.Path:
        """Network namespace of one sandbox."""
        return self.namespaces / sandbox_id

    def control_socket(self, sandbox_id: str) -> pathlib.Path:
        """The sentry's control socket."""
        return self.runsc_root / f"runsc-{sandbox_id}.sock"
