"""Looking at the images of a host: is each still the tree that was built?"""

import pathlib

import msgspec

from . import manifest


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """One image. fault: what is wrong with it, "" where it is `intact`."""

    name: str
    digest: str = ""
    source: str = ""
    created: str = ""
    fault: str = ""

    @property
    def intact(self) -> bool:
        """Whether it is as it was built, as far as was looked."""
        return not self.fault


def look(images: pathlib.Path, *, deep: bool) -> tuple[Looked, ...]:
    """All images below `images` by name. deep: with the content of every file. Raises OSError."""
    names = sorted(path.name for path in images.iterdir() if not path.name.startswith(".")) if images.is_dir() else []
    return tuple(_look(images / name, deep=deep) for name in names)


def _look(image: pathlib.Path, *, deep: bool) -> Looked:
    try:
        stated = manifest.read(image)
    except (OSError, msgspec.DecodeError) as error:
        return Looked(name=image.name, fault=f"no manifest: {getattr(error, 'strerror', None) or error}")
    fault = ""
    if manifest.stat_digest(image / "rootfs") != stated.stat:
        fault = "changed since it was built"
    elif deep and f"sha256:{manifest.tree_digest(image / 'rootfs')}" != stated.digest:
        fault = "content changed since it was built"
    return Looked(name=image.name, digest=stated.digest, source=stated.source, created=stated.created, fault=fault)
