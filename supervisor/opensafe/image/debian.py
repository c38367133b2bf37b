"""Images of Debian packages, by mmdebstrap."""

import os
import pathlib
import re
import subprocess
from collections.abc import Sequence
from typing import Final

from opensafe.errors import InvalidArgument, OpenSafeError

from .place import staged

#: Not in the tree: what only people read, and what the build left.
_LEFT_OUT: Final = (
    'rm -f "$1/etc/hostname"',
    'rm -rf "$1/var/cache/debconf" "$1/var/log" "$1/usr/share/doc" "$1/usr/share/man" "$1/usr/share/locale"',
    'install -d -m 0755 "$1/var/log"',
)
_WORD: Final = re.compile(r"[a-z0-9][a-z0-9+.:=~-]*", re.IGNORECASE)
_OUTPUT: Final = 2000


class BuildFailedError(OpenSafeError):
    """A tool that builds images failed; the end of its output is in the message."""

    reason = "IMAGE_BUILD"


def build(
    images: pathlib.Path, name: str, *, suite: str, variant: str, include: Sequence[str], recipe: str = ""
) -> None:
    """Build IMAGES/NAME of `suite` with these packages. Raises InvalidArgument, BuildFailedError, OSError."""
    for word in (suite, variant, *include):
        if _WORD.fullmatch(word) is None:
            raise InvalidArgument("this can't be the name of a suite, variant or package", value=word)
    with staged(images, name) as image:
        image.rootfs.rmdir()  # mmdebstrap makes it
        _bootstrap(image.rootfs, suite, variant, include)
        image.source = f"Debian {suite} {variant} with {', '.join(include)}"
        image.recipe = recipe
        image.packages = _packages(image.rootfs)
        missing = {word.partition("=")[0] for word in include} - image.packages.keys()
        if missing:
            raise BuildFailedError(f"the image lacks {', '.join(sorted(missing))}")


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
        _, _, release, *_ = (*source.split(), "", "", "")
        if origin == "Debian" and release.split("-")[0] == suite:
            sources.append(source)
    return list(dict.fromkeys(sources))


def _bootstrap(rootfs: pathlib.Path, suite: str, variant: str, include: Sequence[str]) -> None:
    command = [
        "mmdebstrap",
        "--mode=root",
        f"--variant={variant}",
        "--skip=output/mknod",
        "--format=directory",
        *([f"--include={','.join(include)}"] if include else []),
        *(f"--customize-hook={hook}" for hook in _LEFT_OUT),
        suite,
        str(rootfs),
        *host_mirrors(suite),
    ]
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
    except FileNotFoundError as error:
        raise BuildFailedError("mmdebstrap is not installed", remedy="Install the package mmdebstrap.") from error
    if done.returncode != 0:
        said = done.stdout.decode("utf-8", "replace").strip()[-_OUTPUT:]
        remedy = "See that the Debian mirror of /etc/apt is reachable, and that there is 1 GB free."
        raise BuildFailedError(f"mmdebstrap failed with {done.returncode}: {said}", remedy=remedy)


def _packages(rootfs: pathlib.Path) -> dict[str, str]:
    answer = subprocess.run(
        ["/usr/bin/dpkg-query", f"--admindir={rootfs}/var/lib/dpkg", "-W", "-f", "${Package}\t${Version}\n"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return dict(line.split("\t") for line in answer.stdout.splitlines())
