"""A process that prepares bundles, so that nobody's verdict waits for a compiler.

`Preparer` forks it before its own process has threads or an event loop. The child has the code loaded and waits; for
each bundle it forks once more, and that short-lived process verifies, compiles into the cache and runs the self-test.
What comes back is data: the machine code is taken from the cache directory of the process's own user.

A preparation that hangs is ended by its own alarm. The waiting child ends when its parent's end of the socket does, and
all that it started with it.
"""

import asyncio
import gc
import os
import pathlib
import signal
import socket
from typing import Final, NoReturn

import msgspec

from opensafe.errors import BundleRefused, OpenSafeError

from . import native
from .manifest import Bundle
from .native import Tier

#: Seconds for one bundle. Cranelift takes about one for a megabyte of WebAssembly.
DEADLINE_S: Final = 4
_JOB_BYTES: Final = 64 * 1024
_ANSWER_BYTES: Final = 64 << 20
_CHUNK: Final = 1 << 20


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One bundle to prepare. keys: trusted public keys in PEM. optimise: by the optimising compiler, however long."""

    path: str
    keys: tuple[str, ...]
    cache: str
    optimise: bool = False


class Prepared(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A bundle without its module's bytes, whose machine code of `tier` lies in the cache."""

    bundle: Bundle
    tier: Tier


class _Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    message: str
    value: str
    limit: str
    remedy: str


_decode: Final = msgspec.msgpack.Decoder(Prepared | _Refused).decode


class Preparer:
    """The waiting child. Make it before anything else in the process; `close` ends and reaps it."""

    def __init__(self) -> None:
        self._end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._child = os.fork()
        if self._child == 0:
            self._end.close()
            _wait(theirs)
        theirs.close()

    async def prepare(self, job: Job) -> Prepared:
        """Raises BundleRefused: with what `load` found, or because the preparation ended without a word."""
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            try:
                socket.send_fds(self._end, [msgspec.msgpack.encode(job)], [writing])
            except OSError as error:
                raise BundleRefused(f"preparation: its process is gone: {error}") from error
            finally:
                os.close(writing)
            answer = await _read(reading)
        finally:
            os.close(reading)
        try:
            result = _decode(answer)
        except msgspec.DecodeError as error:
            raise BundleRefused(
                "preparation: it ended without a result, killed or out of time", limit=f"{DEADLINE_S} s"
            ) from error
        if isinstance(result, _Refused):
            raise BundleRefused(result.message, value=result.value, limit=result.limit, remedy=result.remedy)
        return result

    def close(self) -> None:
        """End the child and wait for it."""
        self._end.close()
        os.waitpid(self._child, 0)


async def _read(descriptor: int) -> bytes:
    """Everything up to the end of the pipe."""
    loop = asyncio.get_running_loop()
    data = bytearray()
    while len(data) <= _ANSWER_BYTES:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            ready: asyncio.Future[None] = loop.create_future()
            loop.add_reader(descriptor, _settle, ready)
            try:
                await ready
            finally:
                loop.remove_reader(descriptor)
            continue
        if not chunk:
            break
        data += chunk
    return bytes(data)


def _settle(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)


def _wait(end: socket.socket) -> NoReturn:
    """The child's life: no descriptor but its socket and the standard ones, one fork a job."""
    status = 1
    workers: set[int] = set()
    try:
        kept = end.fileno()
        os.closerange(3, kept)
        os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # it ends with its parent, not with the terminal's group
        _warm_up()
        gc.disable()
        gc.freeze()
        while True:
            data, descriptors, _, _ = socket.recv_fds(end, _JOB_BYTES, 1)
            if not data:
                break
            workers = {worker for worker in workers if os.waitpid(worker, os.WNOHANG) == (0, 0)}
            worker = os.fork()
            if worker == 0:
                end.close()
                _work(data, descriptors[0])
            workers.add(worker)
            os.close(descriptors[0])
        status = 0
    finally:
        for worker in workers:  # none was reaped, so each number is still its own
            os.kill(worker, signal.SIGKILL)
            os.waitpid(worker, 0)
        os._exit(status)


def _warm_up() -> None:
    """Do once what every job would do first: load the code, set up the compiler, compile the settings' schema.

    The watchdog's thread is joined again: who forks must be alone.
    """
    from . import bundle, keys, site  # noqa: F401 - loading them is the point

    site.validator()
    native.Runtime(Tier.QUICK).close()
    native.Runtime(Tier.OPTIMISED).close()


def _work(data: bytes, out: int) -> NoReturn:
    status = 1
    try:
        signal.alarm(DEADLINE_S)
        os.set_blocking(out, True)
        answer = memoryview(msgspec.msgpack.encode(_result(msgspec.msgpack.decode(data, type=Job))))
        while answer:
            answer = answer[os.write(out, answer) :]
        status = 0
    finally:
        os._exit(status)


def _result(job: Job) -> Prepared | _Refused:
    from . import keys
    from .bundle import load

    cache = pathlib.Path(job.cache)
    try:
        tier = Tier.OPTIMISED if job.optimise else None
        found = load(pathlib.Path(job.path), trusted=keys.trust(job.keys), cache_dir=cache, tier=tier)
    except OpenSafeError as error:
        return _Refused(message=error.message, value=error.value, limit=error.limit, remedy=error.remedy)
    return Prepared(
        bundle=msgspec.structs.replace(found, wasm=b"", vectors=()), tier=tier or native.best(found.module, cache)
    )
