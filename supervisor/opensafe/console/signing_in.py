"""Who is at the browser: links that work once, or the name that a proxy in front vouches for; and sessions, which end.

Nothing secret is kept: links and sessions are known by the SHA-256 of what the browser holds.
"""

import hashlib
import hmac
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from opensafe.errors import InvalidArgument

LINK_S: Final = 600.0
#: A session ends so long after its beginning, or without a request.
LIFE_S: Final = 12 * 3600.0
IDLE_S: Final = 3600.0
SESSIONS_MAX: Final = 256
_LINKS_MAX: Final = 64


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """Who is signed in. principal: as whom the daemon is asked; name: as a proxy told it, else the principal's.

    csrf: what a form has to send along. ends: when it is over whatever happens, by the clock of `Doorkeeper`. vouched:
    a proxy says so with each request, and signs out.
    """

    id: str
    principal: str
    name: str
    csrf: str
    ends: float
    vouched: bool = False


class Doorkeeper:
    """Gives links and sessions out and knows them again. mapped: users of a proxy to principals."""

    def __init__(
        self,
        principals: frozenset[str],
        mapped: Mapping[str, str] | None = None,
        *,
        life_s: float = LIFE_S,
        idle_s: float = IDLE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.principals = principals
        self._mapped = dict(mapped or {})
        self._life_s, self._idle_s, self._clock = life_s, idle_s, clock
        self._secret = secrets.token_bytes(32)
        self._links: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._people: OrderedDict[str, tuple[Person, float]] = OrderedDict()

    def link(self, principal: str) -> str:
        """A token that signs in once as `principal`, within ten minutes. Raises InvalidArgument."""
        if principal not in self.principals:
            raise InvalidArgument("the console does not act as this principal", value=principal)
        token = secrets.token_urlsafe(32)
        self._links[_known(token)] = (principal, self._clock() + LINK_S)
        while len(self._links) > _LINKS_MAX:
            self._links.popitem(last=False)
        return token

    def accept(self, token: str) -> tuple[str, Person] | None:
        """Use a link up: the cookie's value and who has it; None where there is no such link any more."""
        principal, ends = self._links.pop(_known(token), ("", 0.0))
        return self._begin(principal) if principal and self._clock() < ends else None

    def vouched(self, user: str) -> Person | None:
        """A proxy's user: as the principal of its mapping, else of its own name. Nothing is kept of it."""
        principal = self._mapped.get(user, user)
        if principal not in self.principals:
            return None
        csrf = hmac.new(self._secret, user.encode(), hashlib.sha256).hexdigest()
        return Person(id=f"user {user}", principal=principal, name=user, csrf=csrf, ends=math.inf, vouched=True)

    def find(self, cookie: str, *, by_person: bool = True) -> Person | None:
        """Whose session it is; None where it is none, or is over.

        by_person: somebody asked, and no open page of its own accord, so it does not end idle.
        """
        key = _known(cookie)
        person, seen = self._people.get(key, (None, 0.0))
        now = self._clock()
        if person is None:
            return None
        if now >= person.ends or now - seen >= self._idle_s:
            del self._people[key]
            return None
        if by_person:
            self._people[key] = (person, now)
            self._people.move_to_end(key)
        return person

    def live(self, cookie: str) -> bool:
        """Whether that session lasts; asking does not prolong it."""
        person, seen = self._people.get(_known(cookie), (None, 0.0))
        now = self._clock()
        return person is not None and now < person.ends and now - seen < self._idle_s

    def end(self, cookie: str) -> None:
        """Sign out."""
        self._people.pop(_known(cookie), None)

    def _begin(self, principal: str) -> tuple[str, Person]:
        cookie = secrets.token_urlsafe(32)
        now = self._clock()
        person = Person(
            id=_known(cookie)[:16],
            principal=principal,
            name=principal,
            csrf=secrets.token_urlsafe(32),
            ends=now + self._life_s,
        )
        self._people[_known(cookie)] = (person, now)
        while len(self._people) > SESSIONS_MAX:
            self._people.popitem(last=False)
        return cookie, person


def _known(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
