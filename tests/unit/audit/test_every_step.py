"""One life of log, ledger and checkpoints, killed, torn, or without room at each change to the disk that it makes.

Whatever the step: the next life starts, continues and signs, no record is lost that was told to be on disk, and the
whole verifies.
"""

import asyncio
import contextlib
import errno
import gc
import os
import pathlib
import select
import signal
import threading
import time
import traceback

import pytest

from opensafe.audit.log import AuditLog
from opensafe.audit.segment import read_lines, segment_paths
from opensafe.audit.verify import verify_state
from opensafe.config import AuditSettings
from opensafe.errors import AuditError
from opensafe.model import chain
from opensafe.model.records import DaemonRecord
from opensafe.warden import kernel
from opensafe.warden.checkpoints import Checkpoints
from opensafe.warden.ledger import Ledger
from opensafe.warden.segments import Segments
from opensafe.warden.voiding import void

pytestmark = pytest.mark.root

#: Calls to the system that change something, or say that it is on disk.
CALLS = ("open", "write", "pwrite", "ftruncate", "fdatasync", "fsync", "rename", "unlink", "mkdir", "fchmod", "fchown")
#: Those that need room.
NEED_ROOM = ("write", "pwrite", "fdatasync", "fsync", "rename", "mkdir")
SEGMENT_BYTES = 600
LOST = "ab" * 32


class Driven(Checkpoints):
    """Looks at the log when it is told to."""

    async def _keep(self):
        await self._closing.wait()

    async def look(self):
        await self.turn(at_once=False)


async def live(state, told):
    """Start, void what lost its decision, sign, write over a segment's end, sign, stop; `told` hears what is on disk.

    Returns why the checkpoints failed, if they did.
    """
    async with contextlib.AsyncExitStack() as stack:
        segments = Segments(state / "audit", os.getegid(), SEGMENT_BYTES)
        stack.callback(segments.close)
        ledger = Ledger(state / "ledger.jsonl")
        stack.callback(ledger.close)
        every = AuditSettings(checkpoint_s=3600, checkpoint_records=1)
        checkpoints = Driven(state, os.getegid(), "0123456789", segments, ledger, every)
        await checkpoints.begin()
        stack.push_async_callback(checkpoints.close)
        void(ledger, segments, checkpoints.last.ledger.size if checkpoints.last is not None else 0)

        async def next_segment():
            number = segments.begin_next()
            return number, os.dup(segments.writer)

        log = AuditLog(
            os.dup(segments.writer),
            segment_paths(state),
            lambda *_: None,
            segment_bytes=SEGMENT_BYTES,
            next_segment=next_segment,
        )
        stack.push_async_callback(log.close)
        await log.open()
        for number in range(4):
            written = await log.append(DaemonRecord(time_us=number, state="started", version="0", bundles={}))
            told(written.leaf)
            await checkpoints.look()
            if number == 0:
                await ledger.durable(ledger.append("end", sandbox_id="sb", exec_id="exec-0"))
        return checkpoints


class Fault:
    """At the call of that number: a kill, half a write and a kill, or no room from then on."""

    def __init__(self, kind, number):
        self.kind, self.number = kind, number
        self.count = 0
        self.lock = threading.Lock()
        self.original = {name: getattr(os, name) for name in CALLS}

    def arm(self):
        for name in CALLS:
            setattr(os, name, self.stepped(name))

    def disarm(self):
        for name, original in self.original.items():
            setattr(os, name, original)

    def stepped(self, name):
        original = self.original[name]

        def step(*arguments, **options):
            if not self.counts(name, arguments):
                return original(*arguments, **options)
            with self.lock:
                self.count += 1
                at, beyond = self.count == self.number, self.count > self.number
            if at and name == "write" and self.kind != "kill":
                written = original(arguments[0], arguments[1][: len(arguments[1]) // 2])
                if self.kind == "full":
                    return written
            if at and self.kind != "full":
                os.kill(os.getpid(), signal.SIGKILL)
            if at or beyond:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return original(*arguments, **options)

        return step

    def counts(self, name, arguments):
        if name == "open":
            return bool(arguments[1] & os.O_CREAT) and not os.path.exists(arguments[0])
        return {"kill": True, "torn": name == "write", "full": name in NEED_ROOM}[self.kind]


def prepared(state):
    """A state with half a life behind it: a ledger entry whose decision was lost, and half a record."""
    asyncio.run(live(state, lambda _: None))
    ledger = Ledger(state / "ledger.jsonl")
    ledger.append("start", sandbox_id="sb", exec_id="exec-1", leaf=LOST)
    ledger.close()
    segment = segment_paths(state)[-1]
    with segment.open("ab") as file:
        file.write(b'{"half":')


@contextlib.contextmanager
def removed(state):
    try:
        yield
    finally:
        for path in (state / "audit").glob("segment-*"):
            kernel.unprotect(path)


def threads():
    return set(os.listdir("/proc/self/task"))


def killed_life(state, fault, before):
    """Whether it was killed, and what it was told before. It is forked when there are no other threads than `before`.

    One that was joined may still be at OpenSSL's end of it, under a lock that a child would find locked for good.
    """
    while threads() - before:
        time.sleep(0.001)  # the kernel has no event for it
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            gc.freeze()  # what other tests left is not collected here: some of it belongs to threads that are not
            signal.alarm(30)
            os.close(reading)
            told = os.write  # as it is before the fault is armed
            fault.arm()
            asyncio.run(live(state, lambda leaf: told(writing, leaf.encode())))
            code = 0
        except BaseException:  # noqa: BLE001 - a child must end here, whatever it met
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    heard = b""
    while select.select([reading], [], [], 60)[0] and (more := os.read(reading, 65536)):
        heard += more
    os.close(reading)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status != 0, [heard[at : at + 64].decode() for at in range(0, len(heard), 64)]


def starved_life(state, fault):
    """Whether room ran out, and what was told before. Only what is typed comes out of it."""
    told = list[str]()
    fault.arm()
    try:
        checkpoints = asyncio.run(live(state, told.append))
    except AuditError:
        return True, told
    finally:
        fault.disarm()
    assert fault.count < fault.number or checkpoints.failure is not None or len(told) == 4
    return fault.count >= fault.number, told


def good_life_after(state, told):
    kept = list[str]()
    checkpoints = asyncio.run(live(state, kept.append))
    assert checkpoints.failure is None
    found = verify_state(state)
    assert found.ok, found.findings
    assert found.signed == found.records
    lines = [line for path in segment_paths(state) for line in read_lines(path)]
    leaves = [link.leaf for link in chain.verify(lines)]
    assert len(set(leaves)) == len(leaves)
    assert set(told + kept) <= set(leaves)


@pytest.mark.parametrize("begin", ["fresh", "later"])
@pytest.mark.parametrize("kind", ["kill", "torn", "full"])
def test_at_each_step(tmp_path, monkeypatch, kind, begin):
    for name in ("fdatasync", "fsync"):  # a step as any, which nothing waits for: what a kill leaves is the kernel's
        monkeypatch.setattr(os, name, lambda _: None)
    number, hit, before = 0, True, threads()
    while hit:
        number += 1
        state = pathlib.Path(tmp_path, str(number))
        state.mkdir()
        with removed(state):
            if begin == "later":
                prepared(state)
            fault = Fault(kind, number)
            hit, told = starved_life(state, fault) if kind == "full" else killed_life(state, fault, before)
            try:
                good_life_after(state, told)
            except BaseException as error:
                error.add_note(f"{kind} at call {number}")
                raise
    assert number > 10  # the control: there were steps
