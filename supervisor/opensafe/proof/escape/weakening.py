"""A sandbox made worse on purpose, which the warden's protocol can't express: the control of what holds otherwise.

Each is one change of the specification or of runsc's command line as the warden would have made them. Nothing here is
reachable from a client, a configuration or an operation of the warden's.
"""

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from opensafe.errors import InvalidArgument

from .host import BELOW

_NOTHING: Final[Mapping[str, str]] = {}


class Bind(msgspec.Struct, frozen=True, kw_only=True):
    """A directory of the host in the guest, in the place of one that the image has: runsc would make another one in the
    image itself. devices: device nodes in it are what they are.
    """

    source: pathlib.Path
    destination: str
    writable: bool = False
    devices: bool = False


class Weakening(msgspec.Struct, frozen=True, kw_only=True):
    """What is changed; nothing, as it stands.

    binds: mounts of the host's. root: another root file system, taken as it is. root_writable: that other one, without
    its overlay, so that what the guest writes there is written on the host. new_privileges: an execve may give them,
    and file systems hold programs that do.
    capabilities: of PID 1, "CAP_…". environment: of PID 1 and of all programs. host_network: the host's own namespace
    and stack. unsized: memory file systems without a size. unlimited: a cgroup that limits nothing. unguarded: runsc
    without the filter around it. runsc: further options of its command line, of which the last holds.
    """

    binds: tuple[Bind, ...] = ()
    root: pathlib.Path | None = None
    root_writable: bool = False
    new_privileges: bool = False
    capabilities: tuple[str, ...] = ()
    environment: Mapping[str, str] = _NOTHING
    host_network: bool = False
    unsized: bool = False
    unlimited: bool = False
    unguarded: bool = False
    runsc: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether it changes anything."""
        return self != AS_SHIPPED

    def check(self, image: pathlib.Path) -> None:
        """Raises InvalidArgument where a sandbox made so would change the image itself, which is everybody's."""
        for bind in self.binds:
            if not (image / bind.destination.lstrip("/")).is_dir():
                raise InvalidArgument("the image has no such directory", value=bind.destination)
        if self.root_writable and (self.root is None or os.path.samefile(self.root, image)):
            raise InvalidArgument("a writable root must be another than the image's", value=self.root)

    def options(self) -> tuple[str, ...]:
        """Of runsc's command line, where the last of two holds."""
        overlay = ("--overlay2=none",) if self.root_writable else ()
        return (*overlay, *(("--network=host",) if self.host_network else ()), *self.runsc)

    def applied(self, spec: dict[str, Any]) -> dict[str, Any]:
        """The OCI configuration with the changes."""
        process, linux = dict(spec["process"]), dict(spec["linux"])
        process["env"] = [*process["env"], *(f"{name}={value}" for name, value in self.environment.items())]
        process["noNewPrivileges"] = not self.new_privileges
        if self.capabilities:
            process["capabilities"] = {kind: list(self.capabilities) for kind in process["capabilities"]}
            process["user"] = {"uid": 0, "gid": 0}
        if self.host_network:
            linux["namespaces"] = [one for one in linux["namespaces"] if one["type"] != "network"]
        root = {**spec["root"], **({"path": str(self.root)} if self.root else {}), "readonly": not self.root_writable}
        mounts = [*spec["mounts"], *map(_mounted, self.binds)]
        if self.unsized:
            mounts = [_without(mount, "size=") for mount in mounts]
        if self.new_privileges:
            mounts = [_without(mount, "nosuid") for mount in mounts]
        return {**spec, "root": root, "process": process, "linux": linux, "mounts": mounts}

    def command(self, argv: Sequence[str]) -> list[str]:
        """The command line that starts runsc, with the changes: options before the subcommand hold for it."""
        words = list(argv)
        if self.unguarded:
            at = words.index("--no-new-privileges")
            del words[at : words.index("--", at)]
        at = words.index("--host-settings=ignore") + 1
        while words[at].startswith("--"):
            at += 1
        return [*words[:at], *self.options(), *words[at:]]


AS_SHIPPED: Final = Weakening()


def shared(source: pathlib.Path, destination: str = "/mnt", *, writable: bool = False) -> Weakening:
    """One directory of the host."""
    return Weakening(binds=(Bind(source=source, destination=destination, writable=writable),))


#: The canaries' directory in its own place, to be read; and to be written.
IN_SIGHT: Final = shared(BELOW, str(BELOW))
IN_REACH: Final = shared(BELOW, str(BELOW), writable=True)


def _mounted(bind: Bind) -> dict[str, Any]:
    options = ["rbind", "rw" if bind.writable else "ro", "nosuid", *(() if bind.devices else ("nodev",))]
    return {"destination": bind.destination, "type": "bind", "source": str(bind.source), "options": options}


def _without(mount: dict[str, Any], start: str) -> dict[str, Any]:
    return {**mount, "options": [option for option in mount["options"] if not option.startswith(start)]}
