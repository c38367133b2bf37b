"""A command under way, and a terminal, for synchronous programs: AsyncRun and AsyncPty behind a Portal."""

from types import TracebackType
from typing import Self

from ._async_pty import AsyncPty
from ._portal import Portal
from ._result import CommandResult, Output
from ._run import AsyncRun
from ._types import Verdict


class Run:
    """See AsyncRun. One thread iterates; `send`, `signal` and `cancel` may come from any other."""

    def __init__(self, portal: Portal, run: AsyncRun) -> None:
        self._portal = portal
        self._run = run

    @property
    def call_id(self) -> str:
        """The call's id, by which it is resumed."""
        return self._run.call_id

    @property
    def verdict(self) -> Verdict | None:
        """What policy said, once it has."""
        return self._run.verdict

    @property
    def result(self) -> CommandResult:
        """Its result, once the output is read to the end. Raises Conflict before."""
        return self._run.result

    def wait(self) -> CommandResult:
        """Its result; the output that was not iterated over is in it as well."""
        return self._portal.call(self._run.wait())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Output:
        piece = self._portal.call(_next(self._run))
        if piece is None:
            raise StopIteration
        return piece

    def send(self, data: str | bytes) -> None:
        """Standard input of an interactive run. Text goes as UTF-8."""
        self._portal.call(self._run.send(data))

    def close_stdin(self) -> None:
        """End standard input."""
        self._portal.call(self._run.close_stdin())

    def signal(self, number: int, *, whole_tree: bool = False) -> None:
        """Signal the program, or every process of the call."""
        self._portal.call(self._run.signal(number, whole_tree=whole_tree))

    def cancel(self) -> None:
        """Kill its whole process tree; the output then ends with CommandCancelled."""
        self._portal.call(self._run.cancel())

    def close(self) -> None:
        """Leave it."""
        self._portal.call(self._run.aclose())

    def __enter__(self) -> Self:
        self._portal.call(self._run.start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Pty:
    """See AsyncPty."""

    def __init__(self, portal: Portal, terminal: AsyncPty) -> None:
        self._portal = portal
        self._terminal = terminal

    @property
    def call_id(self) -> str:
        """The call's id."""
        return self._terminal.call_id

    def read(self, timeout: float | None = None) -> str:
        """What was written since, at least a character; "" at the end. Raises TimeoutError where nothing came."""
        return self._portal.call(self._terminal.read(timeout))

    def read_until(self, text: str, timeout: float | None = None) -> str:
        """All that is written until `text` is there, or to the end. Raises TimeoutError after that time."""
        return self._portal.call(self._terminal.read_until(text, timeout))

    def write(self, text: str | bytes) -> None:
        """Type it. A line ends with a newline, control-C is `\\x03`."""
        self._portal.call(self._terminal.write(text))

    def resize(self, columns: int, rows: int) -> None:
        """Give it another size."""
        self._portal.call(self._terminal.resize(columns, rows))

    def signal(self, number: int, *, whole_tree: bool = False) -> None:
        """Signal the program, or every process of the call."""
        self._portal.call(self._terminal.signal(number, whole_tree=whole_tree))

    def wait(self) -> CommandResult:
        """How the program ended; what it still writes is dropped."""
        return self._portal.call(self._terminal.wait())

    def close(self) -> None:
        """End it."""
        self._portal.call(self._terminal.aclose())

    def __enter__(self) -> Self:
        self._portal.call(self._terminal.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def _next(run: AsyncRun) -> Output | None:
    return await anext(run, None)
