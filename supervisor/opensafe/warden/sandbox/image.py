"""Runner images: template name → root file system on the host.

The name was checked by the protocol's pattern; what stands under it is checked here, because a root that is a
symlink, or the host's own, would hand the guest the host's files.
"""

import os
import pathlib
import stat
from typing import Final

import msgspec

from ...errors import SandboxStartFailed

_MANIFEST_MAX: Final = 1 << 20


class _Manifest(msgspec.Struct):
    digest: str


class Image(msgspec.Struct, frozen=True):
    """A root file system that may be used, and the digest that its manifest states for it."""

    rootfs: pathlib.Path
    digest: str


def find(images: pathlib.Path, template: str) -> Image:
    """Raises SandboxStartFailed: no such image, no manifest, or a root that is no directory of its own."""
    directory = images / template
    rootfs = directory / "rootfs"
    try:
        with (directory / "manifest.json").open("rb") as file:
            manifest = msgspec.json.decode(file.read(_MANIFEST_MAX), type=_Manifest)
        for path in (directory, rootfs):
            # lstat: a symlink is refused wherever it points.
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise _unusable(template, f"its {path.name} is not a directory")
    except FileNotFoundError as error:
        raise _unusable(template, f"{pathlib.Path(error.filename).name} is missing") from error
    except (OSError, msgspec.DecodeError) as error:
        raise _unusable(template, getattr(error, "strerror", None) or str(error)) from error
    if os.path.samefile(rootfs, "/"):
        raise _unusable(template, "its root is the host's")
    return Image(rootfs.resolve(), manifest.digest)


def _unusable(template: str, why: str) -> SandboxStartFailed:
    return SandboxStartFailed(
        f"the image can't be used: {why}",
        value=template,
        remedy="`opensafe image build` makes it.",
    )
