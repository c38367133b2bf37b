"""The files that a grant's programs stand for: resolved in the runner image, as the guest would resolve them.

A name without a slash is looked for where the guest's PATH leads; /usr/bin/python3 is the python3.11 that it links
to. Each answer is kept under the image's digest: another image may take the place of one.
"""

import functools
import os
import pathlib
import posixpath
from collections.abc import Iterable
from typing import Final

_PATH: Final = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
#: A grant's word for every program.
ANY: Final = "any"
#: As the kernel's (path_resolution(7)).
_LINKS_MAX: Final = 40


def files(rootfs: pathlib.Path, image_digest: str, programs: str | Iterable[str]) -> tuple[str, ...] | None:
    """The paths in the guest that `programs` of a grant cover, in the image at `rootfs`; None for any."""
    if programs == ANY:
        return None
    names = () if isinstance(programs, str) else tuple(programs)
    return _files(rootfs, image_digest, names)


@functools.lru_cache(maxsize=1024)
def _files(rootfs: pathlib.Path, _image_digest: str, names: tuple[str, ...]) -> tuple[str, ...]:
    wanted = (path for name in names for path in ([name] if "/" in name else [f"{at}/{name}" for at in _PATH]))
    return tuple(sorted({found for path in wanted if (found := _resolved(rootfs, path)) is not None}))


def _resolved(rootfs: pathlib.Path, path: str) -> str | None:
    """The file that `path` leads to below `rootfs`, seen from there; None where there is none."""
    done, ahead, links = "/", posixpath.normpath(f"/{path}").strip("/").split("/"), 0
    while ahead:
        part = ahead.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            done = posixpath.dirname(done)
            continue
        here = posixpath.join(done, part)
        try:
            target = os.readlink(f"{rootfs}{here}")
        except FileNotFoundError:
            return None
        except OSError:  # no link
            done = here
            continue
        links += 1
        if links > _LINKS_MAX:
            return None
        done = "/" if target.startswith("/") else done
        ahead = target.split("/") + ahead
    return done
