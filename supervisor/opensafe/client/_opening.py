"""What `create` gives: to be awaited, or entered as a context manager that closes what was opened."""

from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from opensafe.errors import OpenSafeError


class _Closes(Protocol):
    async def aclose(self) -> None: ...


Opened = TypeVar("Opened", bound=_Closes)


class Opening(Generic[Opened]):
    """`await` it and close what it gives yourself, or `async with` it."""

    def __init__(self, open_it: Callable[[], Coroutine[Any, Any, Opened]]) -> None:
        self._open_it = open_it
        self._opened: Opened | None = None

    def __await__(self) -> Generator[Any, Any, Opened]:
        return self._open_it().__await__()

    async def __aenter__(self) -> Opened:
        self._opened = await self._open_it()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is None:
            return
        try:
            await self._opened.aclose()
        except OpenSafeError:
            if error is None:  # else what went wrong before it is the one to be told
                raise
