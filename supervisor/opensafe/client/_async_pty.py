"""A program on a terminal: what it writes is read, what is typed is written."""

import asyncio
from types import TracebackType
from typing import Self

from ._result import CommandResult, Output
from ._run import AsyncRun


class AsyncPty:
    """Use it as a context manager. One reader and one writer at a time; leaving it ends the program."""

    def __init__(self, run: AsyncRun) -> None:
        self._run = run
        self._next: asyncio.Task[Output | None] | None = None

    @property
    def call_id(self) -> str:
        """The call's id."""
        return self._run.call_id

    async def read(self, timeout: float | None = None) -> str:
        """What was written since, at least a character; "" at the end. Raises TimeoutError where nothing came."""
        while True:
            if self._next is None:
                self._next = asyncio.create_task(self._piece(), name="opensafe-terminal")
            await asyncio.wait((self._next,), timeout=timeout)
            if not self._next.done():
                raise TimeoutError("the terminal wrote nothing")
            task, self._next = self._next, None
            piece = task.result()
            if piece is None or piece.text:
                return "" if piece is None else piece.text

    async def read_until(self, text: str, timeout: float | None = None) -> str:
        """All that is written until `text` is there, or to the end. Raises TimeoutError after that time."""
        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        read = ""
        while text not in read:
            piece = await self.read(None if end is None else max(0.0, end - loop.time()))
            if not piece:
                break
            read += piece
        return read

    async def write(self, text: str | bytes) -> None:
        """Type it. A line ends with a newline, control-C is `\\x03`."""
        await self._run.send(text)

    async def resize(self, columns: int, rows: int) -> None:
        """Give it another size."""
        await self._run.resize(columns, rows)

    async def signal(self, number: int, *, whole_tree: bool = False) -> None:
        """Signal the program, or every process of the call."""
        await self._run.signal(number, whole_tree=whole_tree)

    async def wait(self) -> CommandResult:
        """How the program ended; what it still writes is dropped."""
        while await self.read():
            pass
        return self._run.result

    async def __aenter__(self) -> Self:
        await self._run.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End it."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
            self._next = None
        await self._run.aclose()

    async def _piece(self) -> Output | None:
        return await anext(self._run, None)
