"""What the warden has begun to make: written before the first kernel object of a sandbox, removed after the last.

SQLite in WAL mode. A commit reaches the page cache, not the disk, and that is enough: it survives the death of
this process, and what a power failure takes from the page cache, it takes from the kernel as well.
"""

import contextlib
import errno
import os
import pathlib
import sqlite3
from collections.abc import Iterator
from typing import Final

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS sandboxes (
    sandbox_id TEXT PRIMARY KEY,
    template TEXT NOT NULL,
    created_unix_ns INTEGER NOT NULL
) STRICT
"""


class State:
    """The intents of one daemon. All may raise OSError, ENOSPC where the disk is full."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        # SQLite gives the files beside it the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        path.chmod(0o600)
        self._database = sqlite3.connect(path, isolation_level=None)
        try:
            with self._as_os_error():
                self._database.execute("PRAGMA journal_mode = WAL")
                self._database.execute("PRAGMA synchronous = NORMAL")
                self._database.executescript(_SCHEMA)
        except OSError:
            self._database.close()
            raise

    def intend(self, sandbox_id: str, template: str, created_unix_ns: int) -> None:
        """A sandbox is about to be made; its id must not be in use."""
        with self._as_os_error():
            self._database.execute("INSERT INTO sandboxes VALUES (?, ?, ?)", (sandbox_id, template, created_unix_ns))

    def forget(self, container: str) -> None:
        """Nothing is left of what was made under this id."""
        with self._as_os_error():
            self._database.execute("DELETE FROM sandboxes WHERE sandbox_id = ?", (container,))

    def intended(self) -> set[str]:
        """Ids of all that were begun and not forgotten."""
        with (
            self._as_os_error(),
            contextlib.closing(self._database.execute("SELECT sandbox_id FROM sandboxes")) as rows,
        ):
            return {str(sandbox_id) for (sandbox_id,) in rows}

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    @contextlib.contextmanager
    def _as_os_error(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            raise OSError(errno.ENOSPC if full else errno.EIO, str(error), str(self._path)) from error
