"""The memory that sequences point into: paths, addresses and structures at fixed places.

Whatever is of one host or one run (the canary's path, listeners' ports) stands in a slot of fixed size, so that a
sequence is the same bytes everywhere.
"""

import socket
import struct
from typing import Final

import msgspec

from .wire import ARENA, IMAGE_BYTES, LANDING

_PATH_BYTES: Final = 128
_PATHS_AT: Final = 0
_ADDRESSES_AT: Final = 6144
_ADDRESS_BYTES: Final = 128
_STRINGS_AT: Final = 8192
_STRING_BYTES: Final = 64
_STRUCTURES_AT: Final = 10240
_STRUCTURE_BYTES: Final = 64

#: Descriptors that the executor opens (native/guest/sequence.c): six directories and a namespace, a file, and so on.
DIRECTORIES: Final = (3, 4, 5, 6, 7)
DESCRIPTORS: Final = tuple(range(3, 23))

#: Of a run: where the canary lies on the host, and the unix listener beside it.
CANARY: Final = "{canary}"
LISTENER: Final = "{listener}"
#: Where the self-check mounts the canary; in a sandbox as shipped nothing is there.
MOUNTED: Final = "/mnt"
_TEXT: Final = """
    . .. / /workspace /workspace/data /workspace/a /workspace/b /workspace/c/d /tmp/x /etc/passwd /etc/shadow /etc/hosts
    /.opensafe /.opensafe/run /.opensafe/trust /bin/true /proc/self/exe /proc/self/fd/3 /proc/self/mem /proc/self/ns/net
    /proc/self/root/../.. /proc/1/root /proc/1/environ /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/kcore
    /dev/null /dev/mem /dev/kmsg /dev/ptmx /dev/fuse /dev/shm/x /sys /sys/fs/cgroup /run/docker.sock
    /../../../../../../etc/hostname {canary} {canary}/nonce /proc/1/root{canary}/nonce /proc/self/root{canary}/nonce
    {listener} /lib64/ld-linux-x86-64.so.2 {mounted} {mounted}/nonce {mounted}/directory/inner
"""
PATHS: Final = ("", *_TEXT.replace("{mounted}", MOUNTED).split())
_NAMES: Final = """
    user.x trusted.x security.capability system.posix_acl_access tmpfs proc overlay fuse bpf cgroup keyring user lo eth0
    name rw,size=1 /workspace lower=/,upper=/
"""
STRINGS: Final = tuple(_NAMES.split())


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """Where the host listens. sentinel: an address of its loopback that nothing else uses; other: one that is none."""

    tcp: int
    udp: int
    sentinel: str
    other: str
    abstract: str


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What of a host and a run stands in the image."""

    canary: str
    listener: str
    ports: Ports


NOWHERE: Final = Ground(
    canary="/nowhere",
    listener="/nowhere/s",
    ports=Ports(tcp=9, udp=9, sentinel="127.0.0.1", other="127.0.0.1", abstract="nowhere"),
)


def path(at: int) -> int:
    """Where the path of that number stands."""
    return ARENA + _PATHS_AT + at * _PATH_BYTES


def string(at: int) -> int:
    """Where the string of that number stands."""
    return ARENA + _STRINGS_AT + at * _STRING_BYTES


def address(at: int) -> int:
    """Where the socket address of that number stands."""
    return ARENA + _ADDRESSES_AT + at * _ADDRESS_BYTES


def structure(name: str) -> int:
    """Where the structure of that name stands."""
    return ARENA + _STRUCTURES_AT + tuple(_STRUCTURES).index(name) * _STRUCTURE_BYTES


def pokeable() -> range:
    """Offsets, in steps of eight, that a sequence may change: structures that no call waits by."""
    first = _STRUCTURES_AT + len(_STILL) * _STRUCTURE_BYTES
    return range(first, _STRUCTURES_AT + len(_STRUCTURES) * _STRUCTURE_BYTES, 8)


def image(ground: Ground) -> bytes:
    """All of it."""
    made = bytearray(IMAGE_BYTES)
    for at, text in enumerate(PATHS):
        named = text.replace(CANARY, ground.canary).replace(LISTENER, ground.listener)
        _put(made, _PATHS_AT + at * _PATH_BYTES, named.encode() + b"\0", _PATH_BYTES)
    for at, text in enumerate(STRINGS):
        _put(made, _STRINGS_AT + at * _STRING_BYTES, text.encode() + b"\0", _STRING_BYTES)
    for at, content in enumerate(_addresses(ground)):
        _put(made, _ADDRESSES_AT + at * _ADDRESS_BYTES, content, _ADDRESS_BYTES)
    for at, content in enumerate(_STRUCTURES.values()):
        _put(made, _STRUCTURES_AT + at * _STRUCTURE_BYTES, content, _STRUCTURE_BYTES)
    return bytes(made)


def _put(made: bytearray, at: int, content: bytes, most: int) -> None:
    if len(content) > most:
        raise ValueError(f"{content!r} takes more than {most} bytes")
    made[at : at + len(content)] = content


def _inet(host: str, port: int) -> bytes:
    return struct.pack("<H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(host) + bytes(8)


def _inet6(host: str, port: int) -> bytes:
    packed = socket.inet_pton(socket.AF_INET6, host)
    return struct.pack("<H", socket.AF_INET6) + struct.pack(">HI", port, 0) + packed + struct.pack("<I", 0)


def _unix(name: bytes) -> bytes:
    return struct.pack("<H", socket.AF_UNIX) + name


def _addresses(ground: Ground) -> tuple[bytes, ...]:
    ports = ground.ports
    return (
        _inet("127.0.0.1", ports.tcp),
        _inet(ports.sentinel, ports.tcp),
        _inet(ports.sentinel, ports.udp),
        _inet(ports.other, ports.tcp),
        _inet("169.254.169.254", 80),
        _inet("0.0.0.0", ports.tcp),  # noqa: S104 - a destination, which Linux takes for loopback
        _inet6("::1", ports.tcp),
        _inet6(f"::ffff:{ports.sentinel}", ports.tcp),
        _unix(ground.listener.encode() + b"\0"),
        _unix(b"\0" + ports.abstract.encode()),
        _unix(b"/workspace/s\0"),
        struct.pack("<HHII", socket.AF_NETLINK, 0, 0, 0),
        struct.pack("<HHiHBB8s", socket.AF_PACKET, 0x300, 1, 0, 0, 6, b"\xff" * 6),
        struct.pack("<HHII", 40, 0, ports.tcp, 2),  # AF_VSOCK, the host
    )


ADDRESSES: Final = len(_addresses(NOWHERE))
_AT: Final = ARENA + _STRUCTURES_AT
_LONG: Final = struct.Struct("<QQ")
#: First those by which calls wait, and which therefore stay as they are.
_STILL: Final = {
    "no time": _LONG.pack(0, 0),
    "moment": _LONG.pack(0, 1000),
    "moments": struct.pack("<4Q", 0, 1000, 0, 1000),
}
_STRUCTURES: Final[dict[str, bytes]] = {
    **_STILL,
    "iovec": _LONG.pack(LANDING, 256) + _LONG.pack(ARENA, 64),
    "control": struct.pack("<QiiiiQ", 24, 1, 1, 3, 10, 0),  # SCM_RIGHTS: a directory and the file
    "message": struct.pack("<QIIQQQQI", 0, 0, 0, _AT + 3 * _STRUCTURE_BYTES, 2, _AT + 4 * _STRUCTURE_BYTES, 24, 0),
    "messages": struct.pack("<QIIQQQQII", 0, 0, 0, _AT + 3 * _STRUCTURE_BYTES, 1, 0, 0, 0, 0),
    "event": struct.pack("<IQ", 0x1F, 7),
    "polled": struct.pack("<iHHiHH", 10, 7, 0, 13, 7, 0),
    "signals": struct.pack("<Q", 0x10000),
    "action": struct.pack("<4Q", 1, 0x04000000, 0, 0),
    "stack": struct.pack("<QQQ", LANDING, 0, 8192),
    "limit": _LONG.pack(1 << 20, 1 << 20),
    "length": struct.pack("<Q", 110),
    "number": struct.pack("<Q", 1),
    "offset": struct.pack("<Q", 0),
    "arguments": _LONG.pack(ARENA + PATHS.index("/bin/true") * _PATH_BYTES, 0),
    "how": struct.pack("<3Q", 0x10000, 0, 0),
    "clone": struct.pack("<7Q", 0, 0, 0, 0, 17, 0, 0),
    "capabilities": struct.pack("<IiIII", 0x20080522, 0, 0xFFFFFFFF, 0xFFFFFFFF, 0),
    "filter": struct.pack("<HxxxxxxQ", 1, _AT + 21 * _STRUCTURE_BYTES),
    "instruction": struct.pack("<HBBI", 6, 0, 0, 0x7FFF0000),
    "program": struct.pack("<IIQQI", 1, 1, ARENA, ARENA, 0),
    "perf": struct.pack("<II6Q", 1, 64, 0, 0, 0, 0, 0, 0),
    "request": b"eth0".ljust(16, b"\0") + struct.pack("<HHI", 2, 0, 0),
    "netlink": struct.pack("<IHHIIBBHiII", 32, 18, 0x301, 1, 0, 0, 0, 0, 0, 0, 0),
    "timer": struct.pack("<QiiQ", 0, 0, 1, 0),
}
