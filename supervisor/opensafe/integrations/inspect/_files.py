"""Files of a sample: read and written as inspect_ai has it, with the exceptions that it knows."""

import contextlib
import errno
import posixpath
from collections.abc import Iterator
from typing import Final

from inspect_ai.util import OutputLimitExceededError, SandboxEnvironmentLimits, SandboxUnavailableError

from opensafe.client import AsyncSandboxFiles
from opensafe.errors import (
    Conflict,
    Denied,
    FileDenied,
    FileError,
    FileNotFound,
    FileOutside,
    FileTooLarge,
    NoSpace,
    NotFound,
    NotPermitted,
    OpenSafeError,
    RequestError,
    ReviewPending,
    SandboxLost,
    Unavailable,
    WrongFileType,
)

#: Bytes asked for at once: less than a site lets one Read ask for (read_bytes of ceilings.json).
_PIECE: Final = 32 << 20
#: Bytes of a path with its NUL (PATH_MAX).
_PATH_MAX: Final = 4096
_ERRNO: Final[tuple[tuple[type[OpenSafeError], int], ...]] = (
    (FileNotFound, errno.ENOENT),
    (WrongFileType, errno.ENOTDIR),
    (FileDenied, errno.EACCES),
    (FileOutside, errno.EACCES),
    (NotPermitted, errno.EACCES),
    (NoSpace, errno.ENOSPC),
    (FileTooLarge, errno.EFBIG),
    (FileError, errno.EIO),
    (RequestError, errno.EINVAL),
)


async def read(files: AsyncSandboxFiles, path: str) -> bytes:
    """The whole content. Raises OutputLimitExceededError beyond the limit, IsADirectoryError, OpenSafeError."""
    limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
    content = bytearray()
    try:
        while True:
            length = min(_PIECE, limit + 1 - len(content))
            piece = await files.read_bytes(path, offset=len(content), length=length)
            content += piece
            if len(content) > limit:
                raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
            if len(piece) < length:
                return bytes(content)
    except WrongFileType as error:
        await _told_apart(files, path, error)
        raise


async def write(files: AsyncSandboxFiles, path: str, content: str | bytes) -> None:
    """Make the file, with the directories above it, or write into the one that is there, which stays the same file.

    Raises IsADirectoryError, OpenSafeError.
    """
    try:
        try:
            await files.write(path, content, in_place=True)
        except FileNotFound:
            await files.mkdir(posixpath.dirname(path) or ".", parents=True)
            await files.write(path, content, in_place=True)
    except WrongFileType as error:
        await _told_apart(files, path, error)
        raise


async def _told_apart(files: AsyncSandboxFiles, path: str, error: WrongFileType) -> None:
    """Raises IsADirectoryError, unless it is known that the path, or one above it, is something else."""
    try:
        if (await files.stat(path)).type != "directory":
            return
    except FileError:
        return
    except (Denied, ReviewPending):
        pass  # a site may let a file be read and not let it be looked at
    raise IsADirectoryError(errno.EISDIR, "Is a directory", path) from error


@contextlib.contextmanager
def errors(path: str) -> Iterator[None]:
    """What goes wrong within, as the OSError that inspect_ai expects. Denied, ReviewPending and SandboxError pass."""
    try:
        if len(path.encode("utf-8")) >= _PATH_MAX:  # not sent: of megabytes gRPC does not always tell the refusal
            raise OSError(errno.ENAMETOOLONG, "File name too long", f"{path[:100]}…")
        yield
    except (NotFound, Conflict) as error:
        raise SandboxLost(str(error)) from error
    except Unavailable as error:
        raise SandboxUnavailableError(str(error)) from error
    except UnicodeError as error:  # half a character in a name or a text
        raise OSError(errno.EINVAL, str(error), path) from error
    except (FileError, RequestError) as error:
        number = next(number for kind, number in _ERRNO if isinstance(error, kind))
        raise OSError(number, str(error), path) from error


def refused(why: object, path: str) -> PermissionError:
    """Policy's no to a file operation."""
    return PermissionError(errno.EACCES, str(why), path)
