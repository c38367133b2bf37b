"""The baseline: a program started over the sentry's control socket, with nothing of the daemon around it.

Blocking calls on one socket and three pipes: what somebody would write who wants a program run in that sandbox, its
output and its end, as fast as Python can. See warden/sandbox/control.py for the protocol.
"""

import contextlib
import io
import os
import pathlib
import select
import socket
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from opensafe.errors import DriverError
from opensafe.warden.sandbox.driver import GuestProgram

_ANSWER_MAX: Final = 64 * 1024
_CHUNK: Final = 64 * 1024
#: Bit numbers of linux/capability.h.
_CAPABILITY_BIT: Final = {"CAP_SETGID": 6, "CAP_SETUID": 7}


def execute(control: pathlib.Path, sandbox_id: str, program: GuestProgram) -> tuple[int, bytes]:
    """Run `program` to its end on pipes of its own: wait status and output. Raises DriverError, OSError."""
    with contextlib.ExitStack() as stack:
        stdin, stdin_end = _pipe(stack)
        output, output_end = _pipe(stack)
        error, error_end = _pipe(stack)
        stream = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC))
        stream.connect(str(control))
        descriptors = {0: stdin.fileno(), 1: output_end.fileno(), 2: error_end.fileno(), **program.descriptors}
        capabilities = sum(1 << _CAPABILITY_BIT[name] for name in program.capabilities)
        arg = {
            "filename": program.argv[0],
            "argv": program.argv,
            "envv": program.env,
            "wd": program.cwd,
            "KUID": 0,
            "KGID": 0,
            "Capabilities": dict.fromkeys(("PermittedCaps", "EffectiveCaps", "BoundingCaps"), capabilities),
            "ContainerID": sandbox_id,
            "GuestFDs": list(descriptors),
        }
        _ask(stream, "ExecuteAsync", arg, list(descriptors.values()))
        pid = _answer(stream)
        # Asked for before the output is read: a sentry that nobody waits on takes twice as long for some programs.
        _ask(stream, "WaitPID", {"PID": pid, "CID": sandbox_id})
        for end in (stdin, stdin_end, output_end, error_end):
            end.close()
        written = _drain(output.fileno(), error.fileno())
        return _answer(stream), written


def _pipe(stack: contextlib.ExitStack) -> tuple[io.FileIO, io.FileIO]:
    start, end = os.pipe2(os.O_CLOEXEC)
    return stack.enter_context(io.FileIO(start)), stack.enter_context(io.FileIO(end, "w"))


def _drain(*descriptors: int) -> bytes:
    """Everything up to the end of file of both."""
    written, waiting = b"", list(descriptors)
    while waiting:
        for descriptor in select.select(waiting, [], [])[0]:
            data = os.read(descriptor, _CHUNK)
            written += data
            if not data:
                waiting.remove(descriptor)
    return written


def _ask(stream: socket.socket, method: str, arg: object, descriptors: Sequence[int] = ()) -> None:
    request = msgspec.json.encode({"method": f"containerManager.{method}", "arg": arg})
    sent = socket.send_fds(stream, [request], list(descriptors))
    stream.sendall(request[sent:])


def _answer(stream: socket.socket) -> int:
    answer = b""
    while len(answer) <= _ANSWER_MAX:
        chunk = stream.recv(_ANSWER_MAX)
        if not chunk:
            break
        answer += chunk
        with contextlib.suppress(msgspec.DecodeError):  # not at its end yet
            decoded: dict[str, Any] = msgspec.json.decode(answer)
            if not decoded["success"]:
                break
            return int(decoded["result"])
    raise DriverError("the sentry gave no answer", value=answer[:200])
