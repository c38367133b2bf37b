"""Refusals at the first packet on their way to the record, so that a guest that floods can neither fill it nor hide.

Whose a packet is, its link says and not its source, which the guest writes. The first of a kind is told at once, equal
ones within the next second as one record with their number. Each sandbox has so many kinds a second; what is beyond,
what the gateway's rules did not tell and what found no room is counted, and told as one record.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterable, Callable
from typing import Final

import msgspec

from ..model.connection import Connection
from ..model.ids import now_us
from . import feed
from .network.links import Link
from .network.nflog import Refusal

_log = logging.getLogger(__name__)

_SECOND_S: Final = 1.0
#: Different refusals of one sandbox within a second that are kept apart.
_KINDS: Final = 16

_Kind = tuple[str, str, str, str, str, int]


class _Rule(msgspec.Struct, frozen=True):
    """Why a packet is refused: an id for the record, and in words."""

    id: str
    reason: str


_CLOSED: Final = _Rule("gateway.port.closed", "only names are reached, on the ports that are served")
_SPOOFED: Final = _Rule("gateway.source.spoofed", "the packet's source is not the sandbox's address")
#: By what firewall.py calls them.
_RULES: Final = {
    "closed": _CLOSED,
    "full": _Rule("gateway.connections.most", "the sandbox has too many connections"),
    "spoofed": _SPOOFED,
}


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Behind a link: the sandbox, "" where there is none any more, and the one call that runs there, if it is one."""

    sandbox_id: str = ""
    call: feed.Call | None = None


class Packets:
    """`run` reads refusals and tells them; `take` and `flush` are its steps."""

    def __init__(
        self,
        tell: Callable[[Connection], bool],
        link: Callable[[int], Link | None],
        origin: Callable[[Link], Origin],
        untold: Callable[[], int],
    ) -> None:
        """tell: whether there was room. link: by its interface's number. untold: how many nobody told since the last.

        untold raises OSError.
        """
        self._tell = tell
        self._link = link
        self._origin = origin
        self._untold = untold
        self._repeats: dict[_Kind, Connection] = {}
        self._kinds: Counter[str] = Counter()
        self._beyond: Counter[str] = Counter()
        self._unheard = 0
        self._heard = asyncio.Event()

    async def run(self, refusals: AsyncIterable[Refusal]) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read(refusals))
            group.create_task(self._flush_each_second())

    def take(self, refusal: Refusal) -> None:
        """One was told."""
        connection = self._described(refusal)
        spoofed = connection.rules == (_SPOOFED.id,)  # addresses that it makes up would each be a kind
        kind = (
            connection.sandbox_id,
            connection.exec_id,
            connection.rules[0],
            "" if spoofed else refusal.protocol,
            "" if spoofed else refusal.address,
            0 if spoofed else refusal.port,
        )
        self._heard.set()
        before = self._repeats.get(kind)
        if before is not None:
            self._repeats[kind] = msgspec.structs.replace(before, count=before.count + 1, time_us=connection.time_us)
        elif self._kinds[connection.sandbox_id] >= _KINDS:
            self._beyond[connection.sandbox_id] += 1
        else:
            self._kinds[connection.sandbox_id] += 1
            self._repeats[kind] = connection
            self._pass_on(connection)

    def flush(self) -> None:
        """A second has passed: tell what was counted."""
        repeats, self._repeats = self._repeats, {}
        beyond, self._beyond = self._beyond, Counter()
        self._kinds.clear()
        for one in repeats.values():
            if one.count > 1:  # the first was told
                self._pass_on(msgspec.structs.replace(one, count=one.count - 1))
        for sandbox_id, count in beyond.items():
            self._pass_on(_counted(sandbox_id, "too many different refusals at the first packet", count))
        try:
            self._unheard += self._untold()
        except OSError as error:
            _log.error("refusals that were not told can't be counted: %s", error)
        if self._unheard:
            count, self._unheard = self._unheard, 0
            self._pass_on(_counted("", "refusals at the first packet came too fast to be told", count))

    def _pass_on(self, connection: Connection) -> None:
        if not self._tell(connection):
            self._unheard += connection.count

    def _described(self, refusal: Refusal) -> Connection:
        link = self._link(refusal.came_by)
        origin = self._origin(link) if link is not None else Origin()
        rule = _RULES.get(refusal.why, _CLOSED) if link is not None else _SPOOFED
        detail = f": {refusal.source}" if rule is _SPOOFED else ""
        connection = Connection(
            time_us=now_us(),
            state="refused",
            sandbox_id=origin.sandbox_id,
            layer="packet",
            protocol=refusal.protocol,
            address=refusal.address,
            port=refusal.port or None,
            rules=(rule.id,),
            reason=f"{rule.reason}{detail}",
        )
        return feed.under(origin.call, connection)

    async def _read(self, refusals: AsyncIterable[Refusal]) -> None:
        async for refusal in refusals:
            self.take(refusal)

    async def _flush_each_second(self) -> None:
        """While there is anything, and once more: the last ones may have gone untold."""
        while True:
            await self._heard.wait()
            quiet = False
            while not quiet:
                quiet = not (self._heard.is_set() or self._unheard)
                self._heard.clear()
                await asyncio.sleep(_SECOND_S)
                self.flush()


def _counted(sandbox_id: str, reason: str, count: int) -> Connection:
    return Connection(
        time_us=now_us(), state="refused", sandbox_id=sandbox_id, layer="packet", reason=reason, count=count
    )
