"""The deadline of evaluations: one owned thread that interrupts a guest by advancing its engine's epoch.

A deadline bounds work: it counts the processor time of the thread that evaluates, so that a busy host, which
may keep any thread waiting, is not mistaken for a rule that runs away. Twenty times as much real time is the outer
bound. A guest can't sleep, so one of the two always ends it.

Why a thread and not a POSIX timer: SIGEV_THREAD makes a thread for each expiry (and silently none where the
process has no more), may still run while the engine is freed, and shares its helper thread with whatever else is
in the process. This thread sleeps in `read` of a timerfd and has one owner, who joins it.

Why the GIL does not break the deadline: a guest runs with the GIL released, so the thread needs it only against
other Python threads, for a few instructions, and gets it within a switch interval. Arming costs no system call
on the timer while an earlier expiry is pending: the thread re-arms itself for what is left.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import cffi

_ffi: Final[Any] = cffi.FFI()  # no types for what a cdef declares
_ffi.cdef(
    """
    struct timespec { long tv_sec; long tv_nsec; };
    struct itimerspec { struct timespec it_interval; struct timespec it_value; };
    int timerfd_create(int clockid, int flags);
    int timerfd_settime(int fd, int flags, const struct itimerspec *new_value, struct itimerspec *old_value);
    """
)
_libc: Final[Any] = _ffi.dlopen(None)
_CLOCK_MONOTONIC: Final = 1
_TFD_CLOEXEC: Final = 0o2000000
_BILLION: Final = 1_000_000_000
_SHORTEST_NS: Final = 1_000_000  # between two looks
#: Real time allowed for a unit of processor time.
PATIENCE: Final = 20


class Watchdog:
    """Calls `interrupt` once an armed deadline has passed; never after `disarm` has returned."""

    def __init__(self, interrupt: Callable[[], None], patience: int = PATIENCE) -> None:
        self._interrupt = interrupt
        self._patience = patience
        self._lock = threading.Lock()
        self._armed = False
        self._clock = 0  # of the armed thread's processor time
        self._work_end = 0  # on that clock, in nanoseconds
        self._real_end = 0  # monotonic nanoseconds
        self._expiry = 0  # when the timer fires and looks at both; 0: it is not set
        self._closed = False
        self._timer = _libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_CLOEXEC)
        if self._timer < 0:
            raise OSError(_ffi.errno, f"timerfd_create: {os.strerror(_ffi.errno)}")
        self._thread = threading.Thread(target=self._watch, name="policy-watchdog", daemon=True)
        self._thread.start()

    def arm(self, nanoseconds: int) -> None:
        """Interrupt when the calling thread has worked so long, or waited too long for it. One at a time."""
        clock = time.pthread_getcpuclockid(threading.get_ident())
        with self._lock:
            now = time.monotonic_ns()
            self._armed = True
            self._clock = clock
            self._work_end = time.clock_gettime_ns(clock) + nanoseconds
            self._real_end = now + nanoseconds * self._patience
            if not self._expiry or now + nanoseconds < self._expiry:
                self._start(nanoseconds)

    def disarm(self) -> None:
        """The guarded work is over."""
        with self._lock:
            self._armed = False

    def close(self) -> None:
        """End the thread and wait for it."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._start(1)
        self._thread.join()
        os.close(self._timer)

    def _start(self, nanoseconds: int) -> None:
        self._expiry = time.monotonic_ns() + nanoseconds
        value = _ffi.new("struct itimerspec *")
        value.it_value.tv_sec, value.it_value.tv_nsec = divmod(max(nanoseconds, 1), _BILLION)
        if _libc.timerfd_settime(self._timer, 0, value, _ffi.NULL) != 0:
            raise OSError(_ffi.errno, f"timerfd_settime: {os.strerror(_ffi.errno)}")

    def _watch(self) -> None:
        while True:
            os.read(self._timer, 8)
            with self._lock:
                if self._closed:
                    return
                self._expiry = 0
                if not self._armed:
                    continue
                # The armed thread lives: it has not disarmed. Its clock may be read.
                work = self._work_end - time.clock_gettime_ns(self._clock)
                real = self._real_end - time.monotonic_ns()
                if work <= 0 or real <= 0:
                    self._armed = False
                    self._interrupt()
                else:
                    self._start(max(min(work, real), _SHORTEST_NS))
