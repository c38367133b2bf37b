"""How much a name can carry: what `egress.dns.label.deny` weighs of each question, connection and request.

A name that is asked for leaves the sandbox even if nothing comes back, so its labels are measured, and the different
names that one session asks of one zone are counted. The count only grows and its memory is bounded: where it is full, a
new name counts as one too many, and nothing that a session does can lower its own count.
"""

import functools
import math
from collections import Counter, OrderedDict
from typing import Final

#: What a count says that can't grow any further.
MANY: Final = 1 << 20
#: Different names kept of one session, and of all; then the session that has been quiet for longest is forgotten.
_NAMES_A_SESSION: Final = 2048
_NAMES: Final = 1 << 18
_ZONE_LABELS: Final = 2


@functools.lru_cache(maxsize=1024)
def measure(name: str) -> dict[str, int]:
    """longest: characters of the longest label; length: of the name without its final dot; entropy: milli-bits a
    character (Shannon), case apart, of the label that has most.
    """
    labels = name.lower().rstrip(".").split(".")
    return {
        "longest": max(map(len, labels)),
        "length": sum(map(len, labels)) + len(labels) - 1,
        "entropy": max(map(_entropy, labels)),
    }


class Asked:
    """The different names that each session has asked for, by zone: the last two labels of the name."""

    def __init__(self, *, most: int = _NAMES, most_of_one: int = _NAMES_A_SESSION) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._names: OrderedDict[str, set[str]] = OrderedDict()
        self._zones: dict[str, Counter[str]] = {}
        self._kept = 0

    def __len__(self) -> int:
        return self._kept

    def count(self, session: str, name: str) -> int:
        """Count `name` and say how many different ones of its zone `session` has asked for."""
        name = name.lower().rstrip(".")
        zone = ".".join(name.split(".")[-_ZONE_LABELS:])
        names = self._names.setdefault(session, set())
        zones = self._zones.setdefault(session, Counter())
        self._names.move_to_end(session)
        if name not in names:
            if len(names) >= self._most_of_one:
                return MANY
            names.add(name)
            zones[zone] += 1
            self._kept += 1
            while self._kept > self._most and len(self._names) > 1:
                self._forget_oldest()
        return zones[zone]

    def _forget_oldest(self) -> None:
        session, names = self._names.popitem(last=False)
        del self._zones[session]
        self._kept -= len(names)


def _entropy(label: str) -> int:
    size = len(label)
    shares = (count / size for count in Counter(label).values())
    return round(-1000 * sum(share * math.log2(share) for share in shares))
