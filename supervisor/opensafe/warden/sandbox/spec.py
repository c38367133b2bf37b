"""The OCI runtime configuration of a sandbox, built from scratch. OCI runtime specification 1.2.

A pure function of our own typed values: every key that can appear is written out below, so there is no way for
a caller's text to become an annotation, a hook, a device, a namespace or a mount.
"""

import pathlib
from typing import Any, Final

import msgspec

from ...model.sandbox import SandboxSpec
from . import layout

HOSTNAME: Final = "sandbox"

#: No other name is known without a resolver.
HOSTS: Final = f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost\n"

_NOFILE: Final = 65536


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Host paths that the warden chose for one sandbox."""

    rootfs: pathlib.Path
    guest_tools: pathlib.Path
    resolv_conf: pathlib.Path
    hosts: pathlib.Path
    network: pathlib.Path
    trust: pathlib.Path | None = None


def oci_spec(spec: SandboxSpec, places: Places) -> dict[str, Any]:
    """The content of the bundle's config.json.

    Sizes of the memory file systems are bytes. The root's own overlay is sized by runsc's --overlay2.
    """
    limits = spec.limits
    return {
        "ociVersion": "1.2.1",
        "hostname": HOSTNAME,
        "root": {"path": str(places.rootfs), "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": layout.SUPERVISOR_UID, "gid": layout.SUPERVISOR_UID},
            "args": [f"{layout.GUEST_TOOLS}/init"],
            "env": [],
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": {kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")},
            "rlimits": [
                {"type": "RLIMIT_NOFILE", "soft": _NOFILE, "hard": _NOFILE},
                {"type": "RLIMIT_CORE", "soft": 0, "hard": 0},
            ],
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "nodev", "noexec"]},
            _tmpfs("/tmp", "1777", limits.tmp_bytes),  # noqa: S108 - a path in the guest
            _tmpfs("/dev/shm", "1777", limits.shm_bytes),  # noqa: S108 - a path in the guest
            _tmpfs(layout.WORKSPACE, "0755", limits.workspace_bytes, owner=(layout.COMMAND_UID, layout.COMMAND_GID)),
            _read_only(layout.GUEST_TOOLS, places.guest_tools),
            _read_only("/etc/resolv.conf", places.resolv_conf),
            _read_only("/etc/hosts", places.hosts),
            *((_read_only(layout.GUEST_TRUST, places.trust),) if places.trust is not None else ()),
        ],
        "linux": {
            "namespaces": [
                {"type": "pid"},
                {"type": "ipc"},
                {"type": "uts"},
                {"type": "mount"},
                {"type": "network", "path": str(places.network)},
            ],
        },
    }


def resolv_conf(resolver: str) -> str:
    """Of the gateway's address, or of nobody: without a way out there is none that a resolver could use."""
    return f"nameserver {resolver}\noptions timeout:2 attempts:2\n" if resolver else "# no resolver\n"


def meminfo(spec: SandboxSpec) -> str:
    """The line of proc_pid_meminfo(5) from which runsc takes how much memory the guest is told that there is.

    It reads the cgroup's limit only from a cgroup that it made itself.
    """
    return f"MemTotal: {spec.limits.memory_bytes >> 10} kB\n"


def _tmpfs(destination: str, mode: str, size: int, owner: tuple[int, int] = (0, 0)) -> dict[str, Any]:
    uid, gid = owner
    return {
        "destination": destination,
        "type": "tmpfs",
        "source": "tmpfs",
        "options": ["nosuid", "nodev", f"mode={mode}", f"size={size}", f"uid={uid}", f"gid={gid}"],
    }


def _read_only(destination: str, source: pathlib.Path) -> dict[str, Any]:
    return {
        "destination": destination,
        "type": "bind",
        "source": str(source),
        "options": ["bind", "ro", "nosuid", "nodev"],
    }
