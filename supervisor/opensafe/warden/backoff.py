"""How long to wait before what has died is started again."""

from typing import Final

_FIRST_S: Final = 0.1
_MAX_S: Final = 5.0
#: A life that lasted this long starts over with the shortest delay.
_STEADY_S: Final = 30.0


class Backoff:
    """Delays that double from the first to the last."""

    def __init__(self) -> None:
        self._next = _FIRST_S

    def after(self, lived_s: float) -> float:
        """The delay after a life of so many seconds."""
        if lived_s > _STEADY_S:
            self._next = _FIRST_S
        delay, self._next = self._next, min(2 * self._next, _MAX_S)
        return delay
