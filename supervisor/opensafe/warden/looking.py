"""Looks at the helper's tables: the front asks, the helper hears it and answers, one at a time.

Nothing is kept here: an answer is what the helper has when it is asked, and without a helper there is none.
"""

import asyncio
from typing import Final

from ..errors import Unavailable
from ..model.traffic import Sight
from . import protocol

#: From the question to the answer, the turns of earlier ones included.
_ANSWER_S: Final = 2.0
_REMEDY: Final = "Repeat in a few seconds: a new helper is started. Meanwhile nothing gets out of a sandbox."


class Lookout:
    """Between one front and one helper, which may come and go."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._posted = asyncio.Event()
        self._due: protocol.LookDue | None = None  # not yet heard by the helper
        self._seen: asyncio.Future[Sight | None] | None = None
        self._last = 0
        self._helper = False

    async def ask(self, asked: protocol.LookOut) -> Sight:
        """What the helper sees. Raises Unavailable: there is no helper, or it does not answer."""
        try:
            async with asyncio.timeout(_ANSWER_S), self._turn:
                if not self._helper:
                    raise _gone()
                self._last += 1
                self._seen = asyncio.get_running_loop().create_future()
                self._due = protocol.LookDue(
                    request=0,
                    number=self._last,
                    what=asked.what,
                    sandbox_ids=asked.sandbox_ids,
                    host=asked.host,
                    port=asked.port,
                )
                self._posted.set()
                try:
                    sight = await self._seen
                finally:
                    self._due = self._seen = None
        except TimeoutError as late:
            raise Unavailable("the egress helper did not answer", limit=f"{_ANSWER_S:g} s", remedy=_REMEDY) from late
        if sight is None:
            raise Unavailable("the egress helper could not answer", remedy="Its lines in the daemon's log say why.")
        return sight

    async def next(self, looked: int, sight: Sight | None) -> protocol.LookDue:
        """What the helper is to look at next; `sight` is what it saw under the number `looked`, None for nothing."""
        self._helper = True
        if looked == self._last and self._seen is not None and not self._seen.done():
            self._seen.set_result(sight)
        while (due := self._due) is None:
            self._posted.clear()
            await self._posted.wait()
        self._due = None
        return due

    def ended(self) -> None:
        """The helper is gone."""
        self._helper = False
        if self._seen is not None and not self._seen.done():
            self._seen.set_exception(_gone())


def _gone() -> Unavailable:
    return Unavailable("the egress helper is not there", remedy=_REMEDY)
