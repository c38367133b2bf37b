"""System calls that Python 3.11 does not wrap: namespaces, mounts, inode flags, pidfds.

Every failure is an OSError with errno and the path or name it was about. Nothing here blocks for long.
"""

import array
import ctypes
import errno
import fcntl
import os
import pathlib
import socket
import stat
import struct
from typing import Final

CLONE_NEWNET: Final = 0x40000000
FS_APPEND_FL: Final = 0x20
FS_IMMUTABLE_FL: Final = 0x10
FS_IOC_GETFLAGS: Final = 0x80086601
FS_IOC_SETFLAGS: Final = 0x40086602
#: asm/unistd_64.h
_NR_PIDFD_GETFD: Final = 438
#: asm-generic/socket.h; struct ucred of unix(7).
_SO_SNDBUFFORCE: Final = 32
_UCRED_SIZE: Final = 12
MNT_DETACH: Final = 2
MS_BIND: Final = 0x1000
PIDFD_GET_INFO: Final = 0xC040FF0B
PIDFD_INFO_EXIT: Final = 1 << 3
_PIDFD_INFO_SIZE: Final = 64
_PIDFD_INFO_EXIT_CODE_OFFSET: Final = 60

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), what)


def unshare_network() -> None:
    """Put the calling *thread* into a new network namespace, in which nothing is up."""
    _check(_libc.unshare(CLONE_NEWNET), "unshare(CLONE_NEWNET)")


def enter_network(namespace: int) -> None:
    """Move the calling *thread* into the network namespace that the descriptor stands for."""
    _check(_libc.setns(namespace, CLONE_NEWNET), "setns(CLONE_NEWNET)")


def bind_mount(source: str, target: str) -> None:
    """Bind `source` at the existing `target`."""
    _check(_libc.mount(source.encode(), target.encode(), None, ctypes.c_ulong(MS_BIND), None), target)


def detach_mount(target: str) -> None:
    """Unmount `target`, also while it is in use. Raises OSError (EINVAL: not a mount point)."""
    _check(_libc.umount2(target.encode(), MNT_DETACH), target)


def set_append_only(descriptor: int, on: bool) -> bool:
    """Set or clear the append-only attribute of an inode. Returns whether the file system has it."""
    return _set_attribute(descriptor, FS_APPEND_FL, on)


def set_immutable(descriptor: int, on: bool) -> bool:
    """Set or clear the immutable attribute of an inode. Returns whether the file system has it."""
    return _set_attribute(descriptor, FS_IMMUTABLE_FL, on)


def unprotect(path: pathlib.Path) -> None:
    """Take both attributes away from a file, so that it can be removed. Raises OSError where it can't be opened."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        # At once: of an immutable file no other attribute can be changed.
        _set_attribute(descriptor, FS_APPEND_FL | FS_IMMUTABLE_FL, False)
    finally:
        os.close(descriptor)


def _set_attribute(descriptor: int, attribute: int, on: bool) -> bool:
    flags = array.array("L", [0])
    try:
        fcntl.ioctl(descriptor, FS_IOC_GETFLAGS, flags)
        flags[0] = flags[0] | attribute if on else flags[0] & ~attribute
        fcntl.ioctl(descriptor, FS_IOC_SETFLAGS, flags)
    except OSError:
        return False
    return True


def exit_status(pid: int, pidfd: int) -> int | None:
    """Raw wait status of a process that has ended and need not be our child; None where the kernel does not tell."""
    zombie = _status_of_zombie(pid)
    return _status_of_reaped(pidfd) if zombie is None else zombie


def _status_of_zombie(pid: int) -> int | None:
    """From /proc/PID/stat (proc_pid_stat(5): state is field 3, exit_code is field 52)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b") ")[2].split()
    except OSError:
        return None
    return int(fields[-1]) if fields and fields[0] == b"Z" else None


def _status_of_reaped(pidfd: int) -> int | None:
    """From the pidfd itself, since Linux 6.15."""
    info = bytearray(_PIDFD_INFO_SIZE)
    struct.pack_into("<Q", info, 0, PIDFD_INFO_EXIT)
    try:
        fcntl.ioctl(pidfd, PIDFD_GET_INFO, info)
    except OSError:
        return None
    (mask,) = struct.unpack_from("<Q", info, 0)
    if not mask & PIDFD_INFO_EXIT:
        return None
    (status,) = struct.unpack_from("<i", info, _PIDFD_INFO_EXIT_CODE_OFFSET)
    return int(status)


def widen_peer(connection: socket.socket, name: str, size: int) -> None:
    """Let the peer of a unix socket send `size` bytes ahead. `name`: what the peer has connected to. Raises OSError."""
    pid, _, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED_SIZE))
    pidfd = os.pidfd_open(pid)
    try:
        for descriptor in map(int, os.listdir(f"/proc/{pid}/fd")):
            taken = _libc.syscall(_NR_PIDFD_GETFD, pidfd, descriptor, 0)
            if taken < 0:
                continue  # closed since it was listed
            if stat.S_ISSOCK(os.fstat(taken).st_mode):
                with socket.socket(fileno=taken) as candidate:
                    if _peer_name(candidate) == name:
                        candidate.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, size)
                        return
            else:
                os.close(taken)
    finally:
        os.close(pidfd)
    raise OSError(errno.ENOTCONN, "the peer has no socket of that name", name)


def _peer_name(candidate: socket.socket) -> object:
    try:
        return candidate.getpeername()
    except OSError:
        return None
