"""Checks of the host that need no daemon: what enforcement will ask of the kernel, and what set-up should have made.

Every check looks and changes nothing; a program that is asked for its version gets a deadline.
"""

import os
import pathlib
import platform
import pwd
import re
import subprocess
from collections.abc import Iterator
from typing import Final

import msgspec

from opensafe.config import DEFAULT_PREFIX, Config

from . import terminating, way_out
from .checks import Check, check

#: close_range (5.9) and openat2 (5.6) are used without fallback; 5.10 is the oldest kernel Debian still ships.
MIN_KERNEL: Final = (5, 10)
CONTROLLERS: Final = {"cpu", "memory", "pids"}
GUEST_PROGRAMS: Final = ("launch", "guest/init", "guest/run", "guest/file")
_VERSION_TIMEOUT_S: Final = 10


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """The checks' results, and the versions found on the way ("" where none)."""

    checks: tuple[Check, ...]
    runsc: str
    opa: str


def look(config: Config) -> Host:
    """Run all checks against the places that `config` names."""
    opa_path = pathlib.Path(DEFAULT_PREFIX, "bin/opa")
    runsc = _version(pathlib.Path(config.paths.runsc), "--version")
    opa = _version(opa_path, "version")
    setup = "Run `make setup`, or name the right place in the configuration."
    found = (
        _root(),
        _kernel(),
        _cgroups(),
        _network_namespaces(),
        check("runsc", bool(runsc), runsc or f"{config.paths.runsc} does not run", setup),
        check("opa", bool(opa), opa or f"{opa_path} does not run", setup),
        *_files(config, setup),
        _user("service-user", config.service.user),
        *((_user("egress-user", config.egress.user),) if config.egress.enabled else ()),
        *way_out.look(config.egress),
        *terminating.look(config),
    )
    return Host(checks=found, runsc=runsc, opa=opa)


def _root() -> Check:
    uid = os.geteuid()
    return check("root", uid == 0, f"uid {uid}", "The daemon needs root; so do some of these checks.")


def _kernel() -> Check:
    release = platform.release()
    numbers = re.match(r"(\d+)\.(\d+)", release)
    version = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    wanted = ".".join(map(str, MIN_KERNEL))
    return check("kernel", version >= MIN_KERNEL, release, f"Boot Linux {wanted} or newer.")


def _cgroups() -> Check:
    """cgroup v2 with the controllers at the root, or v1 with a hierarchy for each."""
    unified = pathlib.Path("/sys/fs/cgroup/cgroup.controllers")
    try:
        if unified.exists():
            flavour, have = "v2", set(unified.read_text().split())
        else:
            flavour, have = "v1", set(_v1_controllers())
    except OSError as error:
        return check("cgroup", False, error, "Mount the cgroup file system at /sys/fs/cgroup.")
    missing = CONTROLLERS - have
    value = f"{flavour} with {', '.join(sorted(CONTROLLERS & have)) or 'none of the controllers'}"
    return check("cgroup", not missing, value, f"Enable the controllers {', '.join(sorted(missing))}.")


def _v1_controllers() -> Iterator[str]:
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        kind, _, options = line.partition(" - ")[2].split(" ", 2)
        if kind == "cgroup":
            yield from options.split(",")


def _network_namespaces() -> Check:
    remedy = "Use a kernel with CONFIG_NET_NS, and leave user.max_net_namespaces above 0."
    if not pathlib.Path("/proc/self/ns/net").exists():
        return check("netns", False, "not supported", remedy)
    if os.geteuid() != 0:
        return check("netns", False, "not tried", "Run as root to try it.")
    tried = subprocess.run(["/usr/bin/unshare", "--net", "/bin/true"], capture_output=True, check=False)
    told = tried.stderr.decode(errors="replace").strip()
    return check("netns", tried.returncode == 0, told or "supported", remedy)


def _files(config: Config, remedy: str) -> Iterator[Check]:
    native = pathlib.Path(config.paths.native)
    missing = [name for name in GUEST_PROGRAMS if not os.access(native / name, os.X_OK)]
    lacking = f"{native} lacks {', '.join(missing)}" if missing else native
    yield check("native", not missing, lacking, remedy)
    image = pathlib.Path(config.paths.images, "base")
    yield check("image", *_image(image), remedy)
    bundle = pathlib.Path(config.paths.bundle)
    yield check("bundle", bundle.is_file(), bundle if bundle.is_file() else f"{bundle} is missing", remedy)


def _image(image: pathlib.Path) -> tuple[bool, str]:
    try:
        manifest = msgspec.json.decode((image / "manifest.json").read_bytes(), type=dict[str, object])
    except (OSError, msgspec.DecodeError) as error:
        return False, f"{image}: {error}"
    if not (image / "rootfs").is_dir():
        return False, f"{image} has no rootfs"
    return True, str(manifest.get("digest", image))


def _user(which: str, name: str) -> Check:
    remedy = f"Create it: useradd --system --shell /usr/sbin/nologin {name}."
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return check(which, False, f"{name} does not exist", remedy)
    return check(which, entry.pw_uid != 0, f"{name} (uid {entry.pw_uid})", "Name a user other than root.")


def _version(program: pathlib.Path, argument: str) -> str:
    """The last word of the first line that the program says of itself; "" where it does not run."""
    try:
        said = subprocess.run([program, argument], capture_output=True, timeout=_VERSION_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    first = said.stdout.decode(errors="replace").partition("\n")[0]
    return first.rpartition(" ")[2].strip()
