"""Runner images: template name → root file system on the host.

The name was checked by the protocol's pattern; what stands under it is checked here, because a root that is a
symlink, or the host's own, would hand the guest the host's files.
"""

import asyncio
import contextlib
import os
import pathlib
import stat

import msgspec

from opensafe.image import manifest

from ...errors import SandboxStartFailed


class Image(msgspec.Struct, frozen=True):
    """A root file system that may be used, and the digest that its manifest states for it."""

    rootfs: pathlib.Path
    digest: str


class Images:
    """All images of this host, each looked at before its first use: its tree must still be as stat(2) saw it when it
    was built. A name that means another image is looked at again.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self._verified: dict[str, tuple[int, int]] = {}

    def find(self, template: str) -> Image:
        """Raises SandboxStartFailed as `find`, and where the tree has changed."""
        found = find(self._directory, template)
        directory = self._directory / template
        try:
            mark = self._mark(template)
            if self._verified.get(template) != mark:
                if manifest.stat_digest(found.rootfs) != manifest.read(directory).stat:
                    raise _unusable(template, "its tree is not as it was built")
                self._verified[template] = mark
        except (OSError, msgspec.DecodeError) as error:
            raise _unusable(template, getattr(error, "strerror", None) or str(error)) from error
        return found

    async def look_up(self, template: str) -> Image:
        """As `find`; in a thread where it takes a look at every entry of the tree."""
        with contextlib.suppress(OSError):
            if self._verified.get(template) == self._mark(template):
                return self.find(template)
        return await asyncio.to_thread(self.find, template)

    def _mark(self, template: str) -> tuple[int, int]:
        status = (self._directory / template / manifest.FILE).stat()
        return status.st_ino, status.st_mtime_ns


def find(images: pathlib.Path, template: str) -> Image:
    """Raises SandboxStartFailed: no such image, no manifest, or a root that is no directory of its own."""
    directory = images / template
    rootfs = directory / "rootfs"
    try:
        stated = manifest.read(directory)
        for path in (directory, rootfs):
            # lstat: a symlink is refused wherever it points.
            if not stat.S_ISDIR(path.lstat().st_mode):
                raise _unusable(template, f"its {path.name} is not a directory")
    except FileNotFoundError as error:
        raise _unusable(template, f"{pathlib.Path(error.filename).name} is missing") from error
    except (OSError, msgspec.DecodeError) as error:
        raise _unusable(template, getattr(error, "strerror", None) or str(error)) from error
    if os.path.samefile(rootfs, "/"):
        raise _unusable(template, "its root is the host's")
    return Image(rootfs.resolve(), stated.digest)


def _unusable(template: str, why: str) -> SandboxStartFailed:
    return SandboxStartFailed(
        f"the image can't be used: {why}",
        value=template,
        remedy="`opensafe image build` makes it.",
    )
