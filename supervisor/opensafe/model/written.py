"""What a session's calls wrote into files, as far as it is known: what a later call of the session may run.

A file has several possible texts where a call may not have written it, or not yet. An empty tuple stands for one that
was written with what is not known. A file that is not named here was written by none of the calls.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

Texts = Mapping[str, tuple[str, ...]]

_NONE: Final[Texts] = MappingProxyType({})


class Written(msgspec.Struct, frozen=True):
    """Texts by resolved path. crowded: more files than are kept were written, so that of none it is known.

    wild: of the paths, the patterns: what was written into whichever files they named.
    """

    texts: Texts = _NONE
    crowded: bool = False
    wild: tuple[str, ...] = ()


class Left(msgspec.Struct, frozen=True):
    """What one call leaves: what each file that it writes may hold from its start on, and holds once it succeeded.

    sure: of these files, what they hold if the call ends well and no other wrote them meanwhile.
    """

    texts: Texts = _NONE
    sure: Texts = _NONE
    crowded: bool = False

    def __bool__(self) -> bool:
        return bool(self.texts or self.crowded)


NOTHING: Final = Written()
NOTHING_LEFT: Final = Left()
