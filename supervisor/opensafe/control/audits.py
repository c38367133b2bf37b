"""Verifying the log and packing evidence while the daemon runs, for auditors: by a child process, one at a time."""

import asyncio
import pathlib
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar

import msgspec

import opensafe
from opensafe.audit.scope import Scope
from opensafe.errors import AuditError, Conflict, InvalidArgument, Unavailable
from opensafe.model.calls import Principal

from .auditor import Answer, Failed, Packed, Verified
from .lookup import AUDITOR
from .roles import require_role

_PIECE: Final = 256 << 10
#: Longest first line.
_ANSWER_BYTES: Final = 16 << 20
_BOOT: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from opensafe.control.auditor import main; "
    "sys.exit(main(sys.argv[1:]))"
)
_decode: Final = msgspec.json.Decoder(Answer).decode

_T = TypeVar("_T")


class Audits:
    """The child, while there is one."""

    def __init__(self, state: pathlib.Path) -> None:
        self._state = state
        self._turn = asyncio.Lock()

    async def verify(self, principal: Principal, gone: asyncio.Event) -> Verified:
        """As `opensafe audit verify`. gone: nobody waits for it any more. Raises NotPermitted, Conflict, AuditError."""
        require_role(principal, "verifying and exporting the log", (AUDITOR,))
        async with self._child("verify") as child:
            answering = asyncio.ensure_future(_answer(child, Verified))
            leaving = asyncio.ensure_future(gone.wait())
            try:
                await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if answering.done():
                    return answering.result()
                raise Unavailable("the verification was broken off")
            finally:
                answering.cancel()
                leaving.cancel()
                await asyncio.gather(answering, leaving, return_exceptions=True)

    async def export(self, principal: Principal, scope: Scope) -> AsyncGenerator[bytes, None]:
        """An evidence bundle in pieces. Raises NotPermitted, Conflict, InvalidArgument, AuditError."""
        require_role(principal, "verifying and exporting the log", (AUDITOR,))
        if scope.since_us < 0:
            raise InvalidArgument("a time is negative", value=scope.since_us)
        async with self._child("export", msgspec.json.encode(scope).decode()) as child:
            left = (await _answer(child, Packed)).size
            while left:
                piece = await _output(child).read(min(left, _PIECE))
                if not piece:
                    raise Unavailable("the export ended too early", remedy="The daemon's log says why.")
                left -= len(piece)
                yield piece

    @asynccontextmanager
    async def _child(self, what: str, *arguments: str) -> AsyncIterator[Process]:
        """A child that is gone when the context ends."""
        if self._turn.locked():
            raise Conflict(
                "the log is being verified or exported already",
                limit="one at a time",
                remedy="Repeat when that has ended.",
            )
        async with self._turn:
            source = pathlib.Path(opensafe.__file__).parents[1]
            command = (sys.executable, "-I", "-c", _BOOT, str(source), what, str(self._state), *arguments)
            child = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=_ANSWER_BYTES)
            try:
                yield child
            except BaseException:
                with suppress(ProcessLookupError):
                    child.terminate()
                raise
            finally:
                await child.communicate()


async def _answer(child: Process, kind: type[_T]) -> _T:
    try:
        answer = _decode(await _output(child).readline())
    except (msgspec.DecodeError, ValueError) as error:
        raise Unavailable(
            "the child that reads the log ended without an answer", remedy="The daemon's log says why."
        ) from error
    if isinstance(answer, Failed):
        raise AuditError(answer.message, value=answer.value, limit=answer.limit, remedy=answer.remedy)
    if not isinstance(answer, kind):
        raise Unavailable("the child that reads the log answered something else")
    return answer


def _output(child: Process) -> asyncio.StreamReader:
    assert child.stdout is not None  # noqa: S101 - it was started with a pipe
    return child.stdout
