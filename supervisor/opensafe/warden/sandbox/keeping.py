"""Names that a session keeps in its sandboxes (`[egress] grants = "session"`), and who may use them there.

A kept name is reachable for whatever runs in the sandbox, because the gateway can't tell programs apart. So a sandbox
runs the programs of the session that made it and of no other. The file helper is our own program and reaches nothing.
"""

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

from ...errors import Conflict, LimitExceeded
from ...model.sandbox import Launch
from .sharing import FILE_HELPER


class Place(Protocol):
    """What of sandbox.Sandbox is needed here. names: kept there, with how many calls were granted each."""

    session_id: str
    names: Counter[str]


@contextlib.contextmanager
def kept(
    launch: Launch, place: Place, others: Iterable[Place], session_id: str, names: Iterable[str], most: int
) -> Iterator[None]:
    """A call of this session starts, and what it was granted is kept unless the start fails.

    others: all places; of those of one session, `most` names may be kept. Raises Conflict, LimitExceeded.
    """
    if launch.program.argv[0] == FILE_HELPER:
        yield
        return
    if place.session_id != session_id:
        raise Conflict(
            "where sessions keep their grants, a sandbox runs the calls of the session that made it",
            value=session_id,
            limit=place.session_id,
            remedy="Make a sandbox in this session.",
        )
    new = set(names)
    known = new.union(*(one.names for one in others if one.session_id == session_id))
    if len(known) > most:
        raise LimitExceeded(
            "the session would keep too many names",
            value=len(known),
            limit=f"egress.session_names = {most}",
            remedy="Use a new session for other hosts.",
        )
    place.names.update(new)
    try:
        yield
    except BaseException:
        place.names -= Counter(new)  # and what is no more than 0 is out
        raise
