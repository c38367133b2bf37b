"""One file or one tree, copied into a sandbox or out of it.

A tree goes through a pipe: the packing or unpacking, which blocks, has a thread of its own that ends with the copy, and
nothing of the tree is kept in memory.
"""

import asyncio
import contextlib
import os
import pathlib
import stat
import tempfile
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from opensafe.errors import InvalidArgument, LimitExceeded
from opensafe.model.files import DOWNLOAD_BYTES

from ._files import Files, Left
from .trees import auto_run, pack, unpack

_CHUNK: Final = 256 * 1024


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """What was copied. read: bytes of the one file, or of the archive that the tree went as."""

    read: int
    left: Left = Left()


async def send_file(files: Files, source: str, target: str, owner: str, *, call_id: str = "") -> Copied:
    path = pathlib.Path(source)
    size, mode = _look(path)
    await files.write(
        target + path.name if target.endswith("/") else target, path, mode=mode, owner=owner, call_id=call_id
    )
    return Copied(read=size)


def _look(path: pathlib.Path) -> tuple[int, int]:
    """Size and mode of a regular file."""
    try:
        info = path.stat()
    except OSError as error:
        raise InvalidArgument(f"it can't be read: {error.strerror}", value=path) from error
    if not stat.S_ISREG(info.st_mode):
        raise InvalidArgument("it is no regular file", value=path, remedy="Use -r for a directory.")
    return info.st_size, info.st_mode & 0o777


async def fetch_file(
    files: Files,
    source: str,
    target: str,
    *,
    with_auto_run: bool,
    size_limit: int = DOWNLOAD_BYTES,
    call_id: str = "",
) -> Copied:
    """Whole or not at all, and never through a link that stands in the target's place."""
    place = _place_for(target, pathlib.PurePosixPath(source).name)
    read = 0
    try:
        descriptor, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name[:100]}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                async with contextlib.aclosing(files.read(source, call_id=call_id)) as pieces:
                    async for data in pieces:
                        read += len(data)
                        if read > size_limit:
                            raise LimitExceeded(
                                "the file is larger than what is taken of one",
                                value=f"{read} bytes or more",
                                limit=f"{size_limit} bytes",
                                remedy="Say a larger size_limit (--size-limit).",
                            )
                        file.write(data)
                os.fchmod(file.fileno(), 0o644)
            if not with_auto_run and auto_run(os.fsencode(place).lstrip(b"/"), pathlib.Path(temporary)):
                raise InvalidArgument(
                    "a host would run this file by itself", value=place, remedy="Copy it with --with-auto-run."
                )
            os.replace(temporary, place)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise InvalidArgument(f"the file can't be written: {error.strerror}", value=place) from error
    return Copied(read=read)


def _place_for(target: str, name: str) -> pathlib.Path:
    """Where a file of that name goes: into a directory that is there, else under the name that is given."""
    path = pathlib.Path(target).absolute()
    return path / name if path.is_dir() else path


async def send_tree(files: Files, source: str, target: str, owner: str, *, call_id: str = "") -> Copied:
    """`source`'s content becomes `target`'s."""
    pipe = _Pipe()
    packing = asyncio.create_task(asyncio.to_thread(_packed, source, pipe.write_end), name="pack")
    try:
        left = await files.upload(target, pipe.read(), owner=owner, call_id=call_id)
    finally:
        pipe.close_reader()
        await asyncio.wait((packing,))
        packing.result()  # why there is no archive comes before what a broken one led to
    missing = packing.result()
    return Copied(read=pipe.passed, left=Left(items=missing.items + left.items, count=missing.count + left.count))


async def fetch_tree(
    files: Files,
    source: str,
    target: str,
    *,
    with_auto_run: bool,
    size_limit: int = DOWNLOAD_BYTES,
    call_id: str = "",
) -> Copied:
    """`source`'s content into the directory `target` of this host, which is made where it is missing."""
    pipe = _Pipe()
    unpacking = asyncio.create_task(
        asyncio.to_thread(_unpacked, pipe.read_end, target, with_auto_run=with_auto_run, size_limit=size_limit),
        name="unpack",
    )
    left = Left()
    try:
        left = await files.download(source, pipe.write, call_id=call_id)
    except BrokenPipeError:
        pass  # the unpacking has ended, and says why
    finally:
        pipe.close_writer()
        await asyncio.wait((unpacking,))
        unpacking.exception()  # read: what ended the download comes first
    missing = unpacking.result()
    return Copied(read=pipe.passed, left=Left(items=left.items + missing.items, count=left.count + missing.count))


def _packed(source: str, descriptor: int) -> Left:
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        return pack(source, file)


def _unpacked(descriptor: int, target: str, *, with_auto_run: bool, size_limit: int) -> Left:
    with os.fdopen(descriptor, "rb") as file:
        left = unpack(file, target, with_auto_run=with_auto_run, size_limit=size_limit)
        while file.read(_CHUNK):
            pass  # what follows the archive's end
        return left


class _Pipe:
    """A pipe between this loop and a thread, which has and closes the other end."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        self.passed = 0
        self._open = True

    async def write(self, data: bytes) -> None:
        """All of `data`; waits while the thread lags. Raises BrokenPipeError where it has ended."""
        os.set_blocking(self.write_end, False)
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.write_end, view) :]
            except BlockingIOError:
                await _ready(self.write_end, write=True)
        self.passed += len(data)

    async def read(self) -> AsyncIterator[bytes]:
        """What the thread writes, to its end."""
        os.set_blocking(self.read_end, False)
        while True:
            try:
                data = os.read(self.read_end, _CHUNK)
            except BlockingIOError:
                await _ready(self.read_end, write=False)
                continue
            if not data:
                return
            self.passed += len(data)
            yield data

    def close_writer(self) -> None:
        """Our end, where we write."""
        if self._open:
            self._open = False
            os.close(self.write_end)

    def close_reader(self) -> None:
        """Our end, where we read."""
        if self._open:
            self._open = False
            os.close(self.read_end)


async def _ready(descriptor: int, *, write: bool) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    add, remove = (loop.add_writer, loop.remove_writer) if write else (loop.add_reader, loop.remove_reader)
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)
