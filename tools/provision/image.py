"""The runner image: a Debian tree under the prefix that every sandbox gets as its read-only root.

It is built beside its place and moved in whole, so that a sandbox never starts on half an image. The manifest
holds a digest over the sorted tree, by which the warden can tell that it is the tree that was built.

Not in the tree, on purpose: device nodes (the sentry has its own), set-user-id bits, and the build host's resolv.conf,
hosts and host name.
"""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .apt import require_root
from .operation import digest
from .runner import Runner, StepError
from .site import Site

SCHEMA = "opensafe.image/1"
HOOKS = (
    'chroot "$1" find / -xdev -perm /6000 -exec chmod ug-s {} +',
    'rm -f "$1/etc/hostname"',
    'rm -rf "$1/var/cache/debconf" "$1/var/log" "$1/usr/share/doc" "$1/usr/share/man" "$1/usr/share/locale"',
    'install -d -m 0755 "$1/var/log"',
    # What a sandbox gets mounted has its place here already, or runsc would make it in the image at first use.
    'install -d -m 0755 "$1/.opensafe" "$1/dev/shm" "$1/workspace" && : >"$1/etc/hosts" && : >"$1/etc/resolv.conf"',
)


def tree_digest(root: Path) -> str:
    """SHA-256 over the tree, hex.

    One line per entry in byte order of its path: path, type and mode in octal, owner, group, then for a file the
    SHA-256 of its content and for a symbolic link its target; fields end with NUL, lines with a newline. Times
    are left out: they say when, not what.
    """
    total = hashlib.sha256()
    base = os.fsencode(root)
    found: list[bytes] = []
    for directory, names, files in os.walk(base):
        found.extend(os.path.join(directory, name) for name in [*names, *files])
    for path in sorted(found):
        status = os.lstat(path)
        content = b""
        if stat.S_ISREG(status.st_mode):
            with open(path, "rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest().encode()
        elif stat.S_ISLNK(status.st_mode):
            content = os.readlink(path)
        fields = (
            os.path.relpath(path, base),
            b"%o" % status.st_mode,
            b"%d" % status.st_uid,
            b"%d" % status.st_gid,
            content,
        )
        total.update(b"\0".join(fields) + b"\0\n")
    return total.hexdigest()


def host_mirrors(suite: str) -> list[str]:
    """The host's own Debian sources for `suite`, as sources.list lines; empty where it has none.

    A host that reaches Debian through a mirror has it configured for apt already.
    """
    line = "deb $(REPO_URI) $(RELEASE) $(COMPONENT)\t$(ORIGIN)"
    answer = subprocess.run(
        ["/usr/bin/apt-get", "indextargets", "--format", line, "Created-By: Packages"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
        text=True,
    )
    sources = []
    for entry in answer.stdout.splitlines():
        source, _, origin = entry.partition("\t")
        release = source.split()[2] if len(source.split()) > 2 else ""
        if origin == "Debian" and release.split("-")[0] == suite:
            sources.append(source)
    return list(dict.fromkeys(sources))


@dataclass(frozen=True, slots=True)
class RunnerImage:
    """PREFIX/images/base: `rootfs/` and `manifest.json`."""

    site: Site
    name: str = "image"

    @property
    def path(self) -> Path:
        """The image's directory."""
        return self.site.prefix / "images" / "base"

    @property
    def _pin(self) -> dict[str, Any]:
        pin: dict[str, Any] = self.site.pins["image"]
        return pin

    def _recipe(self) -> str:
        return digest(SCHEMA, repr(sorted(self._pin.items())), *HOOKS)

    def describe(self) -> str:
        """What the image would be made of."""
        pin = self._pin
        packages = ", ".join(pin["packages"])
        return f"build the runner image at {self.path}: Debian {pin['suite']} {pin['variant']} with {packages}"

    def is_done(self) -> bool:
        """Whether an image of today's recipe is in place."""
        try:
            manifest = json.loads((self.path / "manifest.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return False
        return isinstance(manifest, dict) and manifest.get("recipe") == self._recipe()

    def execute(self, run: Runner) -> None:
        """Build in a directory beside the image's place, then exchange."""
        require_root("build the runner image")
        images = self.path.parent
        images.mkdir(parents=True, exist_ok=True, mode=0o755)
        scratch = Path(tempfile.mkdtemp(prefix=".base-", dir=images))
        try:
            rootfs = scratch / "rootfs"
            self._bootstrap(rootfs, run)
            rootfs.chmod(0o755)  # the guest's / : mmdebstrap leaves it as private as a temporary directory
            manifest = self._manifest(rootfs)
            (scratch / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
            scratch.chmod(0o700)  # the tree has its own modes inside; only root walks in from the host
            self._exchange(scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _bootstrap(self, rootfs: Path, run: Runner) -> None:
        pin = self._pin
        mirrors = host_mirrors(pin["suite"])
        run.say("from the host's own Debian sources" if mirrors else "from Debian's default mirror")
        hooks = [f"--customize-hook={hook}" for hook in HOOKS]
        run(
            [
                "mmdebstrap",
                "--mode=root",
                f"--variant={pin['variant']}",
                "--skip=output/mknod",
                "--format=directory",
                f"--include={','.join(pin['packages'])}",
                *hooks,
                pin["suite"],
                rootfs,
                *mirrors,
            ],
            env={"LC_ALL": "C.UTF-8"},
            remedy="check that the Debian mirror in /etc/apt is reachable and that the prefix has 1 GB free",
        )

    def _manifest(self, rootfs: Path) -> dict[str, object]:
        answer = subprocess.run(
            ["/usr/bin/dpkg-query", f"--admindir={rootfs}/var/lib/dpkg", "-W", "-f", "${Package}\t${Version}\n"],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        packages = dict(line.split("\t") for line in answer.stdout.splitlines())
        if not set(self._pin["packages"]) <= packages.keys():
            missing = ", ".join(sorted(set(self._pin["packages"]) - packages.keys()))
            raise StepError(f"the image lacks {missing}", "run the same command again; see the step's log")
        return {
            "schema": SCHEMA,
            "name": "base",
            "recipe": self._recipe(),
            "suite": self._pin["suite"],
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "digest": "sha256:" + tree_digest(rootfs),
            "packages": packages,
        }

    def _exchange(self, scratch: Path) -> None:
        """Move the new image in; the old one is moved aside first, since sandboxes may still hold it open."""
        if self.path.exists():
            with tempfile.TemporaryDirectory(prefix=".base-old-", dir=self.path.parent) as aside:
                self.path.rename(Path(aside) / "base")
                scratch.rename(self.path)
        else:
            scratch.rename(self.path)
