"""A process of another user that tries what it is told, as `python -m opensafe.proof.escape.control.stranger`.

It begins as root, so that it can be started from wherever the package lies, and is somebody else before it tries
anything. Standard input: one order in JSON. Standard output: an answer to each attempt, a line of JSON each.
"""

import asyncio
import contextlib
import hashlib
import os
import pathlib
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from opensafe.proof.escape import host, wire

#: Nobody's user and group, by number (what the kernel shows for an owner that it can't name).
NOBODY: Final = 65534
READ_MAX: Final = 1 << 20
_ANSWER_S: Final = 5.0
_MODULE: Final = "opensafe.proof.escape.control.stranger"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What to try: `connect` or `http` (a GET of /metrics) to a socket, `rpc` a method of it, `append` to a file, or
    `walk` below a directory: read whatever can be read, and make a file of this `name` wherever one can be made.
    """

    do: str
    path: str
    method: str = ""
    payload: bytes = b""
    name: str = ""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Who to be, and what to try."""

    uid: int
    gid: int
    attempts: tuple[Attempt, ...]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. error: "" where it succeeded. data: what was read. files: SHA-256 by path of what was read."""

    error: str = ""
    data: bytes = b""
    files: dict[str, str] = {}


async def stranger(gid: int, attempts: Sequence[Attempt], uid: int = NOBODY) -> tuple[Answer, ...]:
    """Run one that is in no other group. Raises OSError where it ended otherwise."""
    order = msgspec.json.encode(Order(uid=uid, gid=gid, attempts=tuple(attempts)))
    ended = await host.python("-m", _MODULE, stdin=order)
    return tuple(msgspec.json.decode(line, type=Answer) for line in ended.require("the stranger").splitlines())


def _try(attempt: Attempt) -> Answer:
    try:
        match attempt.do:
            case "connect":
                _connected(attempt.path).close()
                return Answer()
            case "append":
                pathlib.Path(attempt.path).open("ab").close()
                return Answer()
            case "http":
                with _connected(attempt.path) as connection:
                    connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
                    return Answer(data=b"".join(_received(connection)))
            case "rpc":
                reply = asyncio.run(wire.ask(pathlib.Path(attempt.path), attempt.method, attempt.payload))
                error = "" if reply.code == "OK" else f"{reply.code} {reply.details}"
                return Answer(error=error, data=b"".join(reply.messages))
            case _:
                return _walk(attempt)
    except OSError as error:
        return Answer(error=error.strerror or str(error))


def _connected(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_ANSWER_S)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


def _received(connection: socket.socket) -> Iterator[bytes]:
    while chunk := connection.recv(1 << 16):
        yield chunk


def _walk(attempt: Attempt) -> Answer:
    files: dict[str, str] = {}
    for directory, _, names in os.walk(attempt.path):
        for name in names:
            path = pathlib.Path(directory, name)
            if path.is_file() and (data := _content(path)) is not None:
                files[str(path)] = hashlib.sha256(data).hexdigest()
        with contextlib.suppress(OSError):
            pathlib.Path(directory, attempt.name).touch(exist_ok=False)
    return Answer(files=files)


def _content(path: pathlib.Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(READ_MAX)
    except OSError:
        return None


def main() -> None:
    """Be somebody else, then try."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    os.setgroups([])
    os.setresgid(order.gid, order.gid, order.gid)
    os.setresuid(order.uid, order.uid, order.uid)
    for attempt in order.attempts:
        sys.stdout.buffer.write(msgspec.json.encode(_try(attempt)) + b"\n")


if __name__ == "__main__":
    main()
