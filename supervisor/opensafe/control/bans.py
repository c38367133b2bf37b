"""Bans: who may ban whom, and what is banned. What a ban ends is the gate's business.

A subject is a whole principal, or the sessions of one that carry an agent's name. Principals are identities; agent
names are chosen by clients, so a ban of a name stops an agent that keeps its name and no other.
"""

from collections.abc import Collection
from typing import Final

import msgspec

from opensafe.audit.log import AuditLog
from opensafe.errors import Conflict, InvalidArgument, LimitExceeded, NotFound, NotPermitted
from opensafe.model.calls import Principal
from opensafe.model.ids import now_us
from opensafe.model.records import BanRecord
from opensafe.state.rows import BanRow, SessionRow
from opensafe.state.store import Store

from .roles import require_role

#: Either role may ban.
BANNING: Final = frozenset({"operator", "reviewer"})
_BANS_MAX: Final = 10_000
_NAME_MAX: Final = 128
_REASON_MAX: Final = 1000


class Subject(msgspec.Struct, frozen=True):
    """What is banned: `agent` "" is the whole principal."""

    principal: str
    agent: str = ""

    def covers(self, session: SessionRow) -> bool:
        """Whether the session is the subject's."""
        return session.principal == self.principal and self.agent in ("", session.agent)

    def __str__(self) -> str:
        return f"agent {self.agent} of {self.principal}" if self.agent else f"principal {self.principal}"


class Bans:
    """Records bans and their end."""

    def __init__(self, log: AuditLog, store: Store, principals: Collection[str]) -> None:
        self._log = log
        self._store = store
        self._principals = principals

    def visible(self, principal: Principal) -> list[BanRow]:
        """Bans in force, oldest first. Raises NotPermitted."""
        require_role(principal, "banning", BANNING)
        return self._store.history.bans()

    async def ban(self, principal: Principal, subject: Subject, reason: str) -> None:
        """Raises NotPermitted, NotFound (no such principal), Conflict (banned already), LimitExceeded."""
        self._check(principal, subject)
        if self._banned(subject):
            raise Conflict("it is banned already", value=subject)
        if len(self._store.history.bans()) >= _BANS_MAX:
            raise LimitExceeded("too many bans", limit=_BANS_MAX, remedy="Ban whole principals, or lift old bans.")
        await self._record(principal, subject, "banned", reason)

    async def unban(self, principal: Principal, subject: Subject) -> None:
        """Raises NotPermitted, NotFound."""
        self._check(principal, subject)
        if not self._banned(subject):
            raise NotFound("it is not banned", value=subject, remedy="`opensafe agent list` shows those in force.")
        await self._record(principal, subject, "lifted", "")

    def _check(self, principal: Principal, subject: Subject) -> None:
        require_role(principal, "banning", BANNING)
        if self._store.history.banned(principal.name, ""):
            raise NotPermitted("a banned principal decides on nothing", value=principal.name)
        if subject.principal == principal.name:
            raise NotPermitted("nobody decides on their own principal", value=principal.name)
        if subject.principal not in self._principals:
            raise NotFound(
                "no such principal", value=subject.principal, remedy="The daemon's configuration names them."
            )
        if len(subject.agent) > _NAME_MAX or not subject.agent.isprintable():
            raise InvalidArgument("an agent's name is printable text", limit=f"{_NAME_MAX} characters")

    def _banned(self, subject: Subject) -> bool:
        return any(
            (row.principal, row.agent) == (subject.principal, subject.agent) for row in self._store.history.bans()
        )

    async def _record(self, principal: Principal, subject: Subject, state: str, reason: str) -> None:
        await self._log.append(
            BanRecord(
                time_us=now_us(),
                principal=subject.principal,
                agent=subject.agent,
                state=state,
                decided_by=principal.name,
                reason=reason[:_REASON_MAX],
            )
        )
