"""Where runs are kept: SQLite through LangGraph's saver, of which only the latest checkpoint of a run stays.

A run file belongs to one process at a time, since two that went on with one run would ask the model two things under
one call_id. It is private: a conversation is in it.
"""

import fcntl
import os
import pathlib
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import aiosqlite
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from opensafe.errors import Conflict, InvalidArgument, NotFound, OpenSafeError


class LatestSaver(AsyncSqliteSaver):
    """Keeps the latest checkpoint of each run: every one holds the whole conversation."""

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Write the checkpoint, then remove those before it."""
        written = await super().aput(config, checkpoint, metadata, new_versions)
        place = written["configurable"]
        older = (place["thread_id"], place["checkpoint_ns"], place["checkpoint_id"])
        async with self.lock:
            for table in ("checkpoints", "writes"):  # ids grow with time
                await self.conn.execute(
                    f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id < ?",  # noqa: S608 - one of two names
                    older,
                )
            await self.conn.commit()
        return written


@asynccontextmanager
async def saver(path: str | pathlib.Path) -> AsyncIterator[LatestSaver]:
    """The saver on a database, which is made where it is missing. Reading a checkpoint imports nothing at its word.

    One that is made is readable by its owner alone. Raises InvalidArgument where it can't be made, OpenSafeError where
    it fails within the block.
    """
    if str(path) != ":memory:":
        _make_private(pathlib.Path(path))
    try:
        async with aiosqlite.connect(path) as connection:
            await connection.execute("PRAGMA synchronous=FULL")
            yield LatestSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
    except sqlite3.DatabaseError as error:
        raise OpenSafeError(
            f"the run's file can't be read or written: {error}",
            value=path,
            remedy="Nothing was sent since its last checkpoint was written. Resume the run once it can be.",
        ) from error


class RunFile:
    """The file of one run in a directory of runs."""

    def __init__(self, directory: pathlib.Path, run_id: str) -> None:
        """Raises InvalidArgument for an id that no run has."""
        if not run_id.replace("-", "").isalnum() or not run_id.isascii():
            raise InvalidArgument("no run has such an id", value=run_id, remedy="It is printed when a run begins.")
        self.path = directory / f"{run_id}.sqlite"

    @contextmanager
    def claimed(self, *, new: bool) -> Iterator[pathlib.Path]:
        """The file, for this process alone inside the block.

        Raises NotFound where it is not there and `new` is not set, Conflict where another process has it.
        """
        if new:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if new else 0), 0o600)
        except FileNotFoundError:
            raise NotFound("there is no such run here", value=self.path) from None
        except OSError as error:
            raise InvalidArgument(f"the run's file can't be used: {error.strerror}", value=self.path) from error
        try:
            _lock(fd, self.path)
            yield self.path
        finally:
            if new and os.fstat(fd).st_size == 0:  # nothing came of it
                self.remove()
            os.close(fd)  # after SQLite closed it: closing any descriptor of a file gives up SQLite's locks

    def remove(self) -> None:
        """Forget the run."""
        for name in (self.path.name, f"{self.path.name}-wal", f"{self.path.name}-shm"):
            self.path.with_name(name).unlink(missing_ok=True)


def _make_private(path: pathlib.Path) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass  # whoever made it chose who may read it
    except OSError as error:
        raise InvalidArgument(f"the database can't be made: {error.strerror}", value=path) from error


def _lock(fd: int, path: pathlib.Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Conflict("another process goes on with this run", value=path) from None
