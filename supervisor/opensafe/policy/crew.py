"""The processes that prepare bundles: one that waits and has no other work than to fork, and one worker for each job.

A worker takes one job and ends. To fork it and to touch its memory for the first time takes longer than the job, so
that where nothing else goes on one stands by: forked, and rehearsed with the bundle that was prepared last and found
good. Nothing that was refused is ever looked at twice, and no worker is waited for that is not ready.

A job that hangs is ended by its worker's alarm, one that swells by its limits (confine.py). All end with the process
that waits, and that one with its parent's end of the socket.
"""

import contextlib
import gc
import os
import pathlib
import select
import signal
import socket
from typing import Final, NoReturn

import msgspec

from opensafe.errors import OpenSafeError

from . import keys, native, site
from .bundle import load
from .confine import confine
from .job import DEADLINE_S, Job, Prepared, Refused
from .native import Tier

#: Without a job for so long, a worker is made ready for the next one: not while engines change.
LULL_MS: Final = 100
_JOB_BYTES: Final = 64 * 1024
_READY: Final = b"ready"
_GOOD: Final = 0
_OTHER: Final = 1


class _Worker:
    """A forked process at the other end of a socket. job: what it was given, b"" while it stands by."""

    def __init__(self, pid: int, end: socket.socket) -> None:
        self.pid = pid
        self.end = end
        self.watch = os.pidfd_open(pid)
        self.job = b""

    def ready(self) -> bool:
        """Whether it has rehearsed."""
        try:
            return self.end.recv(len(_READY), socket.MSG_DONTWAIT) == _READY
        except OSError:
            return False

    def close(self) -> None:
        """Let go of its descriptors."""
        self.end.close()
        os.close(self.watch)


class Crew:
    """The workers of the process that waits. It has neither threads nor an event loop: it forks."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._workers: dict[int, _Worker] = {}  # by pidfd
        self._spare: _Worker | None = None
        self._good = b""  # the job that was done last, and well
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)

    def serve(self) -> None:
        """Give out jobs until nobody can send any more."""
        while True:
            idle = self._good and not self._workers
            happened = {descriptor for descriptor, _ in self._poll.poll(LULL_MS if idle else None)}
            if not happened:
                self._spare = self._fork(self._good)
            for descriptor in happened & self._workers.keys():
                self._reap(descriptor)
            if self._end.fileno() in happened:
                job, descriptors, _, _ = socket.recv_fds(self._end, _JOB_BYTES, 1)
                if not job:
                    return
                self._give(job, descriptors[0])
                os.close(descriptors[0])

    def end(self) -> None:
        """Kill and reap every worker."""
        for worker in self._workers.values():
            signal.pidfd_send_signal(worker.watch, signal.SIGKILL)
            os.waitpid(worker.pid, 0)

    def _give(self, job: bytes, answer: int) -> None:
        worker = self._spare
        if worker is not None and worker.ready():
            self._spare = None
            with contextlib.suppress(OSError):  # it has died
                self._send(worker, job, answer)
                return
        self._send(self._fork(b""), job, answer)

    @staticmethod
    def _send(worker: _Worker, job: bytes, answer: int) -> None:
        socket.send_fds(worker.end, [job], [answer])
        worker.job = job

    def _reap(self, descriptor: int) -> None:
        worker = self._workers.pop(descriptor)
        self._poll.unregister(descriptor)
        _, status = os.waitpid(worker.pid, 0)
        worker.close()
        if worker is self._spare:
            self._spare, self._good = None, b""  # it will not do: none is kept until a job went well
        elif status == _GOOD:
            self._good = worker.job

    def _fork(self, rehearsal: bytes) -> _Worker:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            _keep_only(theirs)
            _work(theirs, rehearsal)
        theirs.close()
        worker = _Worker(pid, ours)
        self._workers[worker.watch] = worker
        self._poll.register(worker.watch, select.POLLIN)
        return worker


def wait(end: socket.socket) -> NoReturn:
    """The life of the process that waits: no descriptor but its socket and the standard ones."""
    status = 1
    crew = Crew(end)
    try:
        _keep_only(end)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # it ends with its parent, not with the terminal's group
        _warm_up()
        gc.disable()
        gc.freeze()
        crew.serve()
        status = 0
    finally:
        crew.end()
        os._exit(status)


def _keep_only(end: socket.socket) -> None:
    """Of all descriptors that were inherited: this one, and the standard ones."""
    kept = end.fileno()
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


def _warm_up() -> None:
    """Do once what every job would do first: set up the compilers, compile the settings' schema.

    The watchdog's thread is joined again: who forks must be alone.
    """
    site.validator()
    for tier in Tier:
        native.Runtime(tier).close()


def _work(end: socket.socket, rehearsal: bytes) -> NoReturn:
    """The life of a worker. It ends well where the bundle is good."""
    status = _OTHER
    try:
        confine()
        if rehearsal:
            signal.alarm(DEADLINE_S)
            _prepare(rehearsal)
            signal.alarm(0)
            end.send(_READY)
        data, descriptors, _, _ = socket.recv_fds(end, _JOB_BYTES, 1)
        if data:
            signal.alarm(DEADLINE_S)
            result = _prepare(data)
            _answer(descriptors[0], msgspec.msgpack.encode(result))
            status = _GOOD if isinstance(result, Prepared) and not _decode(data).candidate else _OTHER
    finally:
        os._exit(status)


def _prepare(data: bytes) -> Prepared | Refused:
    """Verify, compile into the cache, run the self-test."""
    job = _decode(data)
    cache = pathlib.Path(job.cache)
    try:
        tier = Tier.OPTIMISED if job.optimise else None
        found = load(pathlib.Path(job.path), trusted=keys.trust(job.keys), cache_dir=cache, tier=tier)
    except OpenSafeError as error:
        return Refused(message=error.message, value=error.value, limit=error.limit, remedy=error.remedy)
    return Prepared(
        bundle=msgspec.structs.replace(found, wasm=b"", vectors=()), tier=tier or native.best(found.module, cache)
    )


def _answer(descriptor: int, answer: bytes) -> None:
    """Write it all and close: its end is the answer's, and that of the process takes longer."""
    os.set_blocking(descriptor, True)
    rest = memoryview(answer)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.close(descriptor)


_decode: Final = msgspec.msgpack.Decoder(Job).decode
