"""Signed checkpoints of the audit log: what root vouches for, after it has read it (ADR 0029).

    audit/checkpoint         the last one, a signed note
    audit/checkpoints.jsonl  all of them, one a line
    audit/key.pub            the public key, as C2SP's signed-note writes it
    checkpoint.key           the private key (PKCS #8), for root alone
    frontier.json            how far the last checkpoint's tree was read, so that a start goes on from there

No tree is signed that does not continue the last one. The first line that is out of place ends signing, and from then
on `failure` says why nothing starts any more. Where a checkpoint can't be written nothing starts either, but it is
tried again at each look, and what is written in the end ends that.
"""

import asyncio
import contextlib
import logging
import os
import pathlib
import time
from typing import Final

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ..config import AuditSettings
from ..disk import replace_file
from ..errors import AuditError
from ..model.chain import ChainBrokenError, Head
from ..model.checkpoint import (
    MAX_NOTE,
    Checkpoint,
    Note,
    NoteError,
    Signature,
    VerifierKey,
    opened,
)
from .following import Follower, Kept
from .ledger import Ledger
from .segments import Segments

_log = logging.getLogger(__name__)

#: Between two looks at the log.
_LOOK_S: Final = 1.0
_HISTORY: Final = "checkpoints.jsonl"
_PRIVATE: Final = 0o600
_SHARED: Final = 0o640


class Checkpoints:
    """The signer of one log. Owns one task; `close` signs once more and ends it."""

    def __init__(
        self, state: pathlib.Path, group: int, instance: str, segments: Segments, ledger: Ledger, every: AuditSettings
    ) -> None:
        """Read the key and the last checkpoint, or make the first key. Raises AuditError."""
        self._state = state
        self._audit = state / "audit"
        self._group = group
        self._segments = segments
        self._ledger = ledger
        self._every = every
        #: Why the log can't be vouched for any more, and why what was due could not be written.
        self._broken: AuditError | None = None
        self._unwritten: AuditError | None = None
        #: The last one that was signed.
        self.last: Checkpoint | None = None
        self._signed_at = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._turning = asyncio.Lock()
        try:
            self._key = self._own_key()
            self._name = VerifierKey(f"opensafe/{instance}", self._key.public_key().public_bytes_raw())
            self._put(self._audit / "key.pub", f"{self._name.encode()}\n".encode(), _SHARED)
            self._cut_history()
            self.last = self._read_last()
            self._follower = self._follow()
            segments.settled = self._follower.kept.segment  # all before was on disk when it was signed
        except (OSError, ValueError, UnsupportedAlgorithm, TypeError) as error:
            raise AuditError(f"checkpoints can't be kept: {error}", value=state) from error

    @property
    def failure(self) -> AuditError | None:
        """Why the log is not vouched for, if it isn't."""
        return self._broken or self._unwritten

    async def begin(self) -> None:
        """Read what was not read before, hold it against the last checkpoint, and go on from there.

        Raises AuditError where the log is not the one that was signed.
        """
        try:
            if self.last is not None and self._follower.head.size < self.last.size:
                await self._read(self.last.size)
                if (self._follower.head.size, self._follower.root) != (self.last.size, self.last.root):
                    raise ChainBrokenError(self._follower.head.size, f"is not what was signed at {self.last.size}")
            await self._read()
        except (ChainBrokenError, OSError) as error:
            raise AuditError(
                f"the audit log is not the one that was signed: {error}",
                value=self._audit,
                remedy="Keep the files as evidence, run `opensafe audit verify`, start with a fresh state directory.",
            ) from error
        self._task = asyncio.create_task(self._keep(), name="checkpoints")

    async def close(self) -> None:
        """Sign what is there, and end."""
        if self._task is None:
            return
        # Not cancelled: what it does in a thread would go on, and the last turn beside it.
        self._closing.set()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.turn(at_once=True)

    def require(self) -> None:
        """Raise AuditError where the log is not vouched for."""
        if self.failure is not None:
            raise self.failure

    async def _keep(self) -> None:
        while self._broken is None and not self._closing.is_set():
            await self.turn(at_once=False)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), _LOOK_S)

    async def turn(self, *, at_once: bool) -> None:
        """Read on, and sign where it is time; at_once: whatever is new."""
        async with self._turning:
            if self._broken is None:
                await self._turn(at_once=at_once)

    async def _turn(self, *, at_once: bool) -> None:
        try:
            self._ledger.require()
            # The ledger's end first: what its entries were started on then lies in the log that is read after it.
            ledger, position = self._ledger.head, self._ledger.end
            await self._read()
            kept = self._follower.kept
            if not self._due(at_once=at_once or kept.segment > self._segments.settled or self._unwritten is not None):
                return
            await self._ledger.durable(position)
            for number in range(self._segments.settled, kept.segment):
                await self._segments.settle(number)
            await self._segments.synced(kept.segment, kept.offset)
        except ChainBrokenError as error:
            self._fail(f"the audit log is not intact: {error}")
        except (AuditError, OSError) as error:
            self._fail(f"the audit log can't be vouched for: {error}")
        else:
            await self._write_signed(ledger, kept)

    async def _write_signed(self, ledger: Head, kept: Kept) -> None:
        try:
            self.last = await asyncio.to_thread(self._sign, ledger, kept)
        except OSError as error:
            if self._unwritten is None:
                _log.critical("a checkpoint can't be written, and nothing starts until one is: %s", error)
            self._unwritten = AuditError(
                f"a checkpoint can't be written: {error}",
                value=self._audit,
                remedy="Nothing starts until one is, which is tried every second: make room or mend the disk.",
            )
            return
        if self._unwritten is not None:
            self._unwritten = None
            _log.warning("checkpoints are written again")
        self._signed_at = time.monotonic()

    def _due(self, *, at_once: bool) -> bool:
        new = self._follower.head.size - (self.last.size if self.last is not None else 0)
        late = time.monotonic() - self._signed_at >= self._every.checkpoint_s
        return new > 0 and (at_once or late or new >= self._every.checkpoint_records)

    async def _read(self, up_to: int | None = None) -> None:
        while await asyncio.to_thread(self._follower.advance, up_to):
            if self._follower.head.size == up_to:
                return

    def _sign(self, ledger: Head, kept: Kept) -> Checkpoint:
        """Sign what was read. In a thread: it waits for the disk five times. Raises OSError."""
        made = Checkpoint(
            origin=self._name.name,
            size=kept.size,
            root=self._follower.root,
            ledger=ledger,
            time_us=time.time_ns() // 1000,
        )
        body = made.body()
        note = Note(body, (Signature(self._name.name, self._name.key_id, self._key.sign(body)),)).encode()
        # A frontier without its checkpoint is not used, so it goes first.
        self._put(self._state / "frontier.json", msgspec.json.encode(kept), _PRIVATE)
        self._append(msgspec.json.encode({"note": note.decode()}) + b"\n")
        self._put(self._audit / "checkpoint", note, _SHARED)
        return made

    def _fail(self, why: str) -> None:
        self._broken = AuditError(why, remedy="Nothing starts any more: run `opensafe audit verify`.")
        _log.critical("%s", self._broken)

    def _follow(self) -> Follower:
        """Where the last checkpoint's tree ends, or at the beginning."""
        path = self._state / "frontier.json"
        if self.last is not None and path.exists():
            kept = msgspec.json.decode(path.read_bytes(), type=Kept)
            if kept.segment <= self._segments.number and kept.offset > self._segments.size(kept.segment):
                raise ValueError(f"segment {kept.segment} is shorter than what was signed of it")
            follower = Follower(self._segments, kept)
            if (kept.size, follower.root) == (self.last.size, self.last.root):
                return follower
        return Follower(self._segments)

    def _read_last(self) -> Checkpoint | None:
        path = self._audit / "checkpoint"
        return opened(path.read_bytes(), self._name) if path.exists() else None

    def _own_key(self) -> Ed25519PrivateKey:
        path = self._state / "checkpoint.key"
        if not path.exists():
            made = Ed25519PrivateKey.generate()
            text = made.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            self._put(path, text, _PRIVATE)
        key = serialization.load_pem_private_key(path.read_bytes(), None)
        if not isinstance(key, Ed25519PrivateKey):
            raise NoteError("checkpoint.key is no Ed25519 key")
        return key

    def _put(self, path: pathlib.Path, data: bytes, mode: int) -> None:
        """Replace a file; what is shared is so with the service user."""
        replace_file(path, data, mode=mode, group=self._group if mode == _SHARED else None)

    def _append(self, line: bytes) -> None:
        """Add to the history. Half a line would spoil the next one."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(self._audit / _HISTORY, flags, _PRIVATE)
        try:
            if os.write(file, line) != len(line):
                raise OSError("not written whole")
            os.fchown(file, 0, self._group)
            os.fchmod(file, _SHARED)
            os.fdatasync(file)
        except OSError:
            self._cut_history()
            raise
        finally:
            os.close(file)

    def _cut_history(self) -> None:
        """Take away what was not written whole of a last line: nothing was ever said to be signed by it."""
        path = self._audit / _HISTORY
        if not path.exists():
            return
        with path.open("rb+") as file:
            size = file.seek(0, os.SEEK_END)
            begin = file.seek(max(0, size - 2 * MAX_NOTE))
            end = begin + file.read().rfind(b"\n") + 1
            if end < size:
                _log.warning("the history of checkpoints ends in half a line of %d bytes, which is cut", size - end)
                file.truncate(end)
