"""What became of what somebody did, told once: on the page that they are sent to next."""

from collections import OrderedDict
from typing import Final

import msgspec

from opensafe.model.decision import RuleHit

PEOPLE_MAX: Final = 256


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """key: of the console's words, with `values` for its slots. tone: good, odd or bad. about: the id of what it is of.

    said: what the daemon said of it; rules: of its verdict.
    """

    key: str
    tone: str
    about: str = ""
    values: dict[str, str] = {}
    said: str = ""
    rules: tuple[RuleHit, ...] = ()


class Notices:
    """The last for each person, by the id of their session."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, Notice] = OrderedDict()

    def leave(self, person: str, notice: Notice) -> None:
        """For the next page of that person."""
        self._waiting[person] = notice
        while len(self._waiting) > PEOPLE_MAX:
            self._waiting.popitem(last=False)

    def take(self, person: str) -> Notice | None:
        """It is told now; None where there is none."""
        return self._waiting.pop(person, None)
