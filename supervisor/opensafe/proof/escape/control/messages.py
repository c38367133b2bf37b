"""Bytes that are no message, or no sensible one, as the request of every method: CP-24."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from google.protobuf import descriptor_pool

from opensafe.proof.escape import wire
from opensafe.proof.escape.probe import Run, Severity
from opensafe.proof.escape.trial import Trial

from .ground import SHIPPED, Yard
from .row import row
from .site import STRANGE, Site

_FILES: Final = ("agent", "audit", "egress", "exec", "files", "policy", "review", "sandbox", "session")
_FIELDS: Final = range(1, 13)
_HUGE: Final = 5 << 20
_DEPTH: Final = 200
_ANSWER_S: Final = 20.0
#: What a method may take that has nothing to object to, and whose answer does not end.
_ENDLESS_S: Final = 0.5
#: Codes of a failure of the server's own.
_FAILED: Final = frozenset(("UNKNOWN", "INTERNAL", "DATA_LOSS"))


def _nested() -> bytes:
    data = b""
    for _ in range(_DEPTH):
        data = wire.field(1, data)
    return data


def _unreadable() -> Iterator[bytes]:
    """What no message is."""
    yield from (
        b"\xff\xff\xff",
        b"\x0a\xff",
        b"\x0b" * _DEPTH,
        b"\x00\x00",
        b"\x08" + b"\xff" * 11,
        b"\x0f",
        b"\x0a\x7f",
    )
    yield from (wire.field(1, b"\xff\xfe"), _nested())


def _senseless() -> Iterator[bytes]:
    """What can be a message, and has values that nobody means: wrong types, unknown numbers, clashes, too much."""
    yield b""
    for value in (99, -1, 1 << 62):
        yield b"".join(wire.field(number, value) for number in _FIELDS)
    for text in ("\0", "../../etc/passwd", "x" * 70_000):
        yield b"".join(wire.field(number, text) for number in _FIELDS)
    start = wire.field(1, wire.message(f1="s", f2="b", f3="c", f4="Bash", f5=b'{"command":"true"}'))
    yield start + wire.field(5, wire.message(f1="s", f2="c")) + wire.field(2, b"in") + wire.field(7, wire.field(1, 9))


def _methods() -> Iterator[tuple[str, bool]]:
    """Each method's path, and whether its answer may never end."""
    pool: Any = descriptor_pool.Default()  # filled by the client's own stubs
    for name in _FILES:
        for service in pool.FindFileByName(f"opensafe/v1/{name}.proto").services_by_name.values():
            for method in service.methods:
                endless = method.server_streaming and not method.client_streaming
                yield f"/{service.full_name}/{method.name}", endless


def _requests() -> Iterator[tuple[str, bytes, float]]:
    """Which method is asked what, and for how many seconds: all of it of every method, and what is huge of two."""
    for path, endless in _methods():
        for sent in (*_unreadable(), *(() if endless else _senseless())):
            yield path, sent, _ENDLESS_S if endless else _ANSWER_S
    for path in (f"{wire.SESSIONS}CreateSession", f"{wire.EXEC}Exec"):
        yield path, wire.field(1, b"x" * _HUGE), _ANSWER_S


async def _attack(yard: Yard, on: str = SHIPPED) -> Run:
    """All of it to every method, then bytes that are no HTTP/2."""
    site = await yard.site(on)
    socket, front = site.socket(STRANGE[0]), site.daemon.child("front")
    found, codes = dict[str, str](), dict[str, int]()
    async with wire.Channel(socket) as channel:
        for path, sent, within_s in _requests():
            reply = await channel.ask(path, sent, within_s=within_s)
            codes[reply.code] = codes.get(reply.code, 0) + 1
            if reply.code in _FAILED:
                found.setdefault(path, f"{path} answers {reply.code} to {sent[:8].hex()}: {reply.details[:80]}")
    for noise in (
        b"\xff" * 4096,
        wire.PREFACE + b"\xff" * 4096,
        wire.PREFACE + b"\0\0\0\4\0\0\0\0\0" + os.urandom(512),
    ):
        await _shout(site, noise)
    alive = (await wire.ask(socket, f"{wire.SESSIONS}CreateSession", wire.message(f1="after"))).code == "OK"
    told = list(found.values())
    if not alive or site.daemon.child("front") != front:
        told.append("the front died of it")
    calls = site.records("decision", principal=STRANGE[0], purpose="call")
    if any(one["result"]["action"] == "allow" for one in calls):
        told.append("a call was allowed")
    return Run(
        began=True,
        finished="OK" in codes,
        found="; ".join(told[:3]),
        layer=", ".join(f"{count} {code}" for code, count in sorted(codes.items())),
    )


async def _shout(site: Site, noise: bytes) -> None:
    reader, writer = await asyncio.open_unix_connection(site.socket(STRANGE[0]))
    with contextlib.suppress(OSError, TimeoutError):
        writer.write(noise)
        await writer.drain()
        async with asyncio.timeout(2):
            await reader.read()
    writer.close()


TRIALS: Final[tuple[Trial, ...]] = (
    row(
        id="CP-24",
        title="malformed messages, oneof clashes, unknown enums and huge fields to every method; noise on the socket",
        severity=Severity.PEER_DOS,
        attacks=("T1499.004",),
        breach="UNKNOWN or INTERNAL as the answer, another front than before, or a call that was allowed",
        control="mutant: what can't be read is left to gRPC",
        attempts=(_attack,),
        weak=partial(_attack, on="unguarded"),
    ),
)
