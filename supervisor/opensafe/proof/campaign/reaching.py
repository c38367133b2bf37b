"""The sequence that every batch begins with: it reaches, without finesse, for all that the host watches."""

from typing import Final

from opensafe.warden.sandbox.syscalls import NUMBERS

from . import arena, wire
from .arena import CANARY, LISTENER, MOUNTED, PATHS
from .wire import Sequence, SystemCall

_NONCE: Final = CANARY + "/nonce"
_INET: Final = 2
_UNIX: Final = 1
_STREAM: Final = 0x801
_DATAGRAM: Final = 0x802
_TCP: Final = (0, 1, 3)
_UDP: Final = 2
_UNIX_ADDRESSES: Final = (8, 9)


def sequence() -> Sequence:
    """Read and write the canary, connect to each listener, send a datagram."""
    calls: list[SystemCall] = []

    def call(name: str, *arguments: int, of: int | None = None) -> int:
        """of: the earlier call whose result is the first argument."""
        given = arguments if of is None else (of, *arguments)
        calls.append(SystemCall(NUMBERS[name], given, 0 if of is None else 1))
        return len(calls) - 1

    for name in (_NONCE, MOUNTED + "/nonce", "/proc/1/root" + _NONCE, "/proc/self/root" + _NONCE):
        opened = call("open", arena.path(PATHS.index(name)), 0, 0)
        call("read", wire.LANDING, 256, of=opened)
        call("close", of=opened)
    for name in (_NONCE, MOUNTED + "/nonce"):
        opened = call("open", arena.path(PATHS.index(name)), 0x401, 0)  # O_WRONLY | O_APPEND
        call("write", arena.string(0), 8, of=opened)
    for family, addresses in ((_INET, _TCP), (_UNIX, _UNIX_ADDRESSES)):
        for at in addresses:
            made = call("socket", family, _STREAM, 0)
            call("connect", arena.address(at), 16 if family == _INET else 110, of=made)
    made = call("socket", _INET, _DATAGRAM, 0)
    call("sendto", wire.ARENA, 16, 0, arena.address(_UDP), 16, of=made)
    call("open", arena.path(PATHS.index(LISTENER)), 0x241, 0o600)
    return Sequence(tuple(calls))
