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

from opensafe.image import manifest, place

from ...errors import SandboxStartFailed

_Mark = tuple[tuple[int, int], ...]


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
        self._found: dict[str, tuple[_Mark, Image]] = {}
        self._replaced: dict[str, Image] = {}

    def find(self, template: str) -> Image:
        """The image of that name. Raises SandboxStartFailed as `find`, and where the tree has changed."""
        mark = self._mark(template)
        known = self._known(template, mark)
        if known is not None:
            return known
        found = find(self._directory, template)
        try:
            if manifest.stat_digest(found.rootfs) != manifest.read(self._directory / template).stat:
                raise _unusable(template, "its tree is not as it was built")
        except (OSError, msgspec.DecodeError) as error:
            raise _unusable(template, getattr(error, "strerror", None) or str(error)) from error
        if self._mark(template) != mark:
            raise _unusable(template, "another is taking its place just now")
        self._found[template] = mark, found
        return found

    async def look_up(self, template: str) -> Image:
        """As `find`; in a thread where it takes a look at every entry of the tree."""
        known = self._known(template, self._mark(template))
        return known if known is not None else await asyncio.to_thread(self.find, template)

    def of(self, template: str, digest: str) -> Image:
        """The image that a running sandbox was made of, though another may have its name by now.

        Raises SandboxStartFailed where neither that name nor a replaced tree has this digest.
        """
        with contextlib.suppress(SandboxStartFailed):
            found = self.find(template)
            if found.digest == digest:
                return found
        if digest not in self._replaced:
            self._replaced[digest] = self._find_replaced(template, digest)
        return self._replaced[digest]

    def _find_replaced(self, template: str, digest: str) -> Image:
        for directory in place.replaced(self._directory):
            with contextlib.suppress(SandboxStartFailed):
                found = find(self._directory, directory.name)
                if found.digest == digest:
                    return found
        raise _unusable(template, f"{digest} is not there any more")

    def _known(self, template: str, mark: _Mark) -> Image | None:
        known = self._found.get(template)
        return known[1] if known is not None and known[0] == mark else None

    def _mark(self, template: str) -> _Mark:
        """What differs where another image, tree or manifest has taken a place; of an image that is none, nothing."""
        directory = self._directory / template
        try:
            places = [path.lstat() for path in (directory, directory / "rootfs", directory / manifest.FILE)]
        except OSError:
            return ()
        return (*((one.st_dev, one.st_ino) for one in places), (places[-1].st_size, places[-1].st_mtime_ns))


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
