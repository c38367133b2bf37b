"""The warden's part in a change of policy: a file is watched and archived, and the front's word reaches the helper.

A bundle is bytes here and never parsed. It is read through a descriptor that no link leads to, of a regular file, up to
a cap, and kept under its digest before anybody hears of it; so what front and helper load is one content, whatever
happens to the file meanwhile.
"""

import asyncio
import hashlib
import logging
import os
import pathlib
import stat
from typing import Final

import msgspec

from ..disk import replace_file
from ..errors import BundleRefused, ConfigError, StartError, Unavailable
from . import protocol
from .inotify import Watch
from .prune import prune

_log = logging.getLogger(__name__)

_MAX_BYTES: Final = 64 << 20
#: The helper prepares a bundle within four seconds or not at all.
_HELPER_S: Final = 4.2
_ROOM: Final = "Make room on the file system of paths.state, then put the bundle in place again."


class Bundles:
    """Watches once it was started; whoever starts it ends the task."""

    def __init__(self, path: pathlib.Path, archive: pathlib.Path, audit: pathlib.Path) -> None:
        """`path`: the file; `archive`: where content is kept as DIGEST.tar.gz; `audit`: where records name it."""
        self._path = path
        self._archive = archive
        self._audit = audit
        self._removed: tuple[str, ...] = ()
        self._watch: Watch | None = None
        self._changed = asyncio.Condition()
        self._offer = protocol.Offer(number=0)
        self.mailbox = Mailbox()

    def start(self) -> asyncio.Task[None]:
        """Look at the file now and whenever it was put in place, until the task is cancelled. Raises ConfigError."""
        try:
            self._archive.mkdir(mode=0o755, exist_ok=True)
        except OSError as error:
            raise StartError(
                f"the archive of bundles can't be made: {error.strerror}", value=self._archive, remedy=_ROOM
            ) from error
        self._removed = prune(self._archive, self._audit)
        try:
            self._watch = Watch(self._path)
        except OSError as error:
            raise ConfigError(
                f"the policy bundle's directory can't be watched: {error.strerror}",
                value=self._path,
                remedy="Build a bundle with `make bundle`, or set paths.bundle.",
            ) from error
        return asyncio.create_task(self._run(self._watch), name="bundle")

    async def offered(self, after: int) -> protocol.Offer:
        """The newest offer, when it is newer than `after`; with the first, what was removed of the archive."""
        if after:
            self._removed = ()  # whoever asks for more has it on record
        async with self._changed:
            await self._changed.wait_for(lambda: self._offer.number > after)
            return msgspec.structs.replace(self._offer, removed=self._removed)

    def close(self) -> None:
        """End the watch."""
        if self._watch is not None:
            self._watch.close()

    async def _run(self, watch: Watch) -> None:
        while True:
            await self._look()
            if not await watch.changed():
                _log.error("the directory of %s is gone: no new policy is seen until a restart", self._path)
                return

    async def _look(self) -> None:
        try:
            digest, refused = await asyncio.to_thread(self._keep), ""
        except BundleRefused as error:
            digest, refused = "", str(error)
        async with self._changed:
            self._offer = protocol.Offer(number=self._offer.number + 1, digest=digest, refused=refused)
            self._changed.notify_all()

    def _keep(self) -> str:
        """Archive the file's content; its SHA-256. Raises BundleRefused."""
        try:
            content = self._read()
        except (OSError, ValueError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise BundleRefused(f"the policy bundle can't be read: {why}", value=self._path) from error
        digest = hashlib.sha256(content).hexdigest()
        try:
            keep(self._archive / f"{digest}.tar.gz", content)
        except OSError as error:
            raise BundleRefused(
                f"the policy bundle can't be archived: {error.strerror}", value=self._archive, remedy=_ROOM
            ) from error
        return digest

    def _read(self) -> bytes:
        """Raises OSError, ValueError."""
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ValueError("not a regular file")
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ValueError(f"larger than {_MAX_BYTES} bytes")
        return content


class _Ask(msgspec.Struct):
    """A step for the helper and who waits for its end; nobody does where a new helper is brought up to date."""

    step: protocol.BundleStep
    done: asyncio.Future[str] | None


class Mailbox:
    """Carries steps to the helper, one at a time, and remembers what a helper that starts anew has to load."""

    def __init__(self) -> None:
        self._asking = asyncio.Lock()
        self._posted = asyncio.Event()
        self._waiting: _Ask | None = None  # not yet taken by the helper
        self._taken: _Ask | None = None
        self._last = 0
        self._held = ""  # what the helper is to serve by
        self._fed = False
        #: Digest of the bundle the helper serves by; "" while there is no helper or it has none.
        self.serving = ""

    async def ask(self, digest: str, *, swap: bool) -> None:
        """Let the helper prepare the bundle, or serve by it. Raises BundleRefused, Unavailable."""
        async with self._asking:
            if swap:
                # Now, and not when it has: a helper that ends over it is followed by one that has to know.
                self._held = digest
            ask = self._post(digest, swap, asyncio.get_running_loop().create_future())
            assert ask.done is not None  # noqa: S101 - made in the line above
            try:
                async with asyncio.timeout(_HELPER_S):
                    error = await ask.done
            except TimeoutError as late:
                raise Unavailable("the egress helper did not answer", limit=f"{_HELPER_S} s") from late
            finally:
                if self._waiting is ask:
                    self._waiting = None
                if self._taken is ask:
                    self._taken = None
            if error:
                raise BundleRefused(f"egress helper: {error}")

    async def next(self, finished: int, error: str) -> protocol.BundleStep:
        """The helper's next step, when there is one; it has `finished` the last one, with `error` or ""."""
        taken, self._taken = self._taken, None
        if taken is not None and taken.step.number == finished:
            if taken.step.swap:
                self._fed = True
                if not error:
                    self.serving = taken.step.digest
            if taken.done is None and error:
                _log.error("the helper did not load the policy in force: %s", error)
            elif taken.done is not None and not taken.done.done():
                taken.done.set_result(error)
        while True:
            if self._waiting is None and self._held and self.serving != self._held and not self._fed:
                self._fed = True
                self._post(self._held, swap=True, done=None)
            if self._waiting is not None:
                self._taken, self._waiting = self._waiting, None
                return self._taken.step
            self._posted.clear()
            await self._posted.wait()

    def ended(self) -> None:
        """The helper is gone."""
        self.serving, self._fed = "", False
        taken, self._taken = self._taken, None
        if taken is not None and taken.done is not None and not taken.done.done():
            taken.done.set_exception(Unavailable("the egress helper ended"))

    def _post(self, digest: str, swap: bool, done: asyncio.Future[str] | None) -> _Ask:
        self._last += 1
        self._waiting = _Ask(protocol.BundleStep(request=0, number=self._last, digest=digest, swap=swap), done)
        self._posted.set()
        return self._waiting


def keep(path: pathlib.Path, content: bytes) -> None:
    """Write `content`, whose digest is in the name, whole and durable before anybody sees it. Raises OSError."""
    if path.exists():
        return
    replace_file(path, content, mode=0o644)
