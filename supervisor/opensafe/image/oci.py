"""Images of an OCI image layout (image-spec v1: layout, index, manifest, layer): a directory somebody gave us.

Everything in it is hostile. Blobs are taken only when they hash to their digest. Layers are unpacked entry by entry
through descriptors of directories that were opened without following links, so that no name and no link leads out of
the tree; devices, pipes and sockets are left out; sizes and numbers have caps, counted as they are unpacked.
"""

import gzip
import hashlib
import io
import os
import pathlib
import re
import stat
import tarfile
from typing import IO, Final, TypeVar

import msgspec

from opensafe.errors import InvalidArgument, LimitExceeded

from .place import staged
from .unpack import Tree

_DOCUMENT_MAX: Final = 4 << 20
_LAYERS_MAX: Final = 256
_BYTES_MAX: Final = 16 << 30
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")
_GZIP: Final = ("application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.docker.image.rootfs.diff.tar.gzip")
_TAR: Final = ("application/vnd.oci.image.layer.v1.tar", "application/vnd.docker.image.rootfs.diff.tar")


_Kind = TypeVar("_Kind")


class _Platform(msgspec.Struct):
    architecture: str = ""
    os: str = ""


class _Descriptor(msgspec.Struct, rename="camel"):
    media_type: str = ""
    digest: str = ""
    size: int = 0
    platform: _Platform | None = None


class _Index(msgspec.Struct):
    manifests: list[_Descriptor]


class _Image(msgspec.Struct):
    layers: list[_Descriptor]


def build(images: pathlib.Path, name: str, layout: pathlib.Path) -> None:
    """Build IMAGES/NAME of the layout's one image for linux/amd64. Raises InvalidArgument, LimitExceeded, OSError."""
    with staged(images, name) as image:
        descriptor = _chosen(_document(layout, "index.json", _Index).manifests)
        if "index" in descriptor.media_type or "manifest.list" in descriptor.media_type:
            descriptor = _chosen(_decoded(_blob(layout, descriptor), _Index).manifests)
        layers = _decoded(_blob(layout, descriptor), _Image).layers
        if not 0 < len(layers) <= _LAYERS_MAX:
            raise LimitExceeded("the image's layers are none or too many", value=len(layers), limit=_LAYERS_MAX)
        tree = Tree(image.rootfs)
        for layer in layers:
            _unpack(layout, layer, tree)
        image.source = f"OCI image {descriptor.digest}"
        image.left_out = tree.left_out


def _chosen(manifests: list[_Descriptor]) -> _Descriptor:
    fitting = [one for one in manifests if one.platform is None or one.platform == _Platform("amd64", "linux")]
    if len(fitting) != 1:
        raise InvalidArgument("the layout must hold one image for linux/amd64", value=len(fitting), limit=1)
    return fitting[0]


def _unpack(layout: pathlib.Path, layer: _Descriptor, tree: Tree) -> None:
    if layer.media_type not in (*_TAR, *_GZIP):
        raise InvalidArgument("this kind of layer can't be unpacked", value=layer.media_type, limit="tar, tar+gzip")
    with _opened(layout, layer.digest) as file:
        _verify(file, layer)
        # Whiteouts first: they are about the layers below, wherever in this one they stand.
        for step in (tree.whiteout, tree.entry):
            file.seek(0)
            zipped = layer.media_type in _GZIP
            plain: IO[bytes] = gzip.GzipFile(fileobj=file) if zipped else file  # type: ignore[assignment] # reads alike
            try:
                with tarfile.open(fileobj=_Counted(plain), mode="r|") as archive:
                    for member in archive:
                        step(archive, member)
            except (tarfile.TarError, EOFError, gzip.BadGzipFile, UnicodeError, ValueError) as error:
                raise InvalidArgument(f"a layer is malformed: {error}", value=layer.digest) from error


class _Counted(io.RawIOBase):
    """What a layer unpacks to, up to a cap."""

    def __init__(self, plain: IO[bytes]) -> None:
        self._plain = plain
        self._left = _BYTES_MAX

    def readable(self) -> bool:
        """Always."""
        return True

    def read(self, size: int = -1) -> bytes:
        """As a stream's. Raises LimitExceeded beyond the cap."""
        data = self._plain.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise LimitExceeded("a layer unpacks to too much", limit=f"{_BYTES_MAX} bytes")
        return data


def _document(layout: pathlib.Path, name: str, kind: type[_Kind]) -> _Kind:
    try:
        descriptor = os.open(layout / name, _READ)
    except OSError as error:
        raise InvalidArgument(f"this is no OCI layout: {name}: {error.strerror}", value=layout) from error
    with os.fdopen(descriptor, "rb") as file:
        return _decoded(_limited(file), kind)


def _blob(layout: pathlib.Path, descriptor: _Descriptor) -> bytes:
    with _opened(layout, descriptor.digest) as file:
        _verify(file, descriptor)
        file.seek(0)
        return _limited(file)


def _opened(layout: pathlib.Path, digest: str) -> IO[bytes]:
    match = _DIGEST.fullmatch(digest)
    if match is None:
        raise InvalidArgument("this is no digest by SHA-256", value=digest)
    try:
        descriptor = os.open(layout / "blobs/sha256" / match[1], _READ)
    except OSError as error:
        raise InvalidArgument(f"the layout's blob can't be read: {error.strerror}", value=digest) from error
    file = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise InvalidArgument("the layout's blob is no file", value=digest)
    return file


def _verify(file: IO[bytes], descriptor: _Descriptor) -> None:
    found = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"  # type: ignore[arg-type]  # typed too narrowly
    if found != descriptor.digest:
        raise InvalidArgument("a blob is not what its digest says", value=found, limit=descriptor.digest)


def _limited(file: IO[bytes]) -> bytes:
    data = file.read(_DOCUMENT_MAX + 1)
    if len(data) > _DOCUMENT_MAX:
        raise LimitExceeded("a document of the layout is too large", limit=f"{_DOCUMENT_MAX} bytes")
    return data


def _decoded(data: bytes, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidArgument(f"a document of the layout is malformed: {error}") from error
