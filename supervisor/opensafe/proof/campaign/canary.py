"""Oracles 1 and 2: files that nobody may touch, and nonces that nobody may know."""

import contextlib
import hashlib
import os
import pathlib
import secrets
import shutil
from collections.abc import Iterator
from typing import Final

from opensafe.proof.escape.host import nonce

from .notes import TEMPORARY
from .oracles import Finding, Oracle

_OPEN: Final = 0o777
_ATTRIBUTE: Final = "user.canary"


class Canary:
    """A directory of the host's, which every user may read and write. secrets: what must not come out of a guest."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.file = directory / "nonce"
        #: One lies in a file, the other only in this process.
        self.secrets = {"the canary": nonce(), "a host process's memory": nonce()}
        self.file.write_text(self.secrets["the canary"])
        for name in ("empty", "directory/inner"):
            path = directory / name
            path.parent.mkdir(exist_ok=True)
            path.touch()
        with contextlib.suppress(OSError):  # a file system without attributes
            os.setxattr(self.file, _ATTRIBUTE, b"1")
        for path in (directory, *directory.rglob("*")):
            path.chmod(_OPEN)
        self._before = self._manifest()

    @classmethod
    @contextlib.contextmanager
    def planted(cls) -> Iterator["Canary"]:
        """Below /tmp; gone afterwards."""
        directory = TEMPORARY / f"opensafe-canary-{secrets.token_hex(4)}"
        directory.mkdir()
        try:
            yield cls(directory)
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def settle(self) -> None:
        """Take what stands there now for what has to: what is made beside the files by their owner."""
        self._before = self._manifest()

    def look(self) -> Iterator[Finding]:
        """What changed."""
        after = self._manifest()
        for name in sorted(self._before.keys() | after.keys()):
            if self._before.get(name) != after.get(name):
                yield Finding(oracle=Oracle.CANARY, what=f"{name}: was {self._before.get(name)}, is {after.get(name)}")

    def heard(self, *outputs: bytes) -> Iterator[Finding]:
        """Whether a secret is in what a guest wrote."""
        for where, secret in self.secrets.items():
            if any(secret.encode() in output for output in outputs):
                yield Finding(oracle=Oracle.NONCE, what=f"the nonce of {where} came out")

    def _manifest(self) -> dict[str, str]:
        """Of each entry: mode, owners, inode, links, times, attributes and content."""
        found = {}
        for path in (self.directory, *sorted(self.directory.rglob("*"))):
            status = path.lstat()
            attributes = {}
            with contextlib.suppress(OSError):
                names = os.listxattr(path, follow_symlinks=False)
                attributes = {name: os.getxattr(path, name, follow_symlinks=False) for name in names}
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            numbers = (status.st_mode, status.st_uid, status.st_gid, status.st_ino, status.st_nlink, status.st_mtime_ns)
            found[str(path.relative_to(self.directory))] = f"{numbers} {attributes} {content}"
        return found
