"""What each session's calls wrote into files: with it in mind a later call of the session is judged.

A call may write from its verdict on, and has written only once it succeeded: until then what stood in the file counts
beside it. Where several calls write one file side by side, all of their texts count from then on.
"""

from collections import OrderedDict
from types import MappingProxyType
from typing import Final

import msgspec

from opensafe.model.written import Left, Texts, Written
from opensafe.normalize.paths import is_pattern
from opensafe.state.store import Store

_MAX_FILES: Final = 4096  # of a session; beyond, of no file that is run it is known what it holds
_MAX_TEXTS: Final = 8  # of a file, and
_MAX_KEPT: Final = 2 * 1024 * 1024  # characters of a session: beyond, the oldest are forgotten, and known to be
_SESSIONS: Final = 16  # at hand; the others are read from the index again
#: Stands in the index for more files than are kept. No path is empty.
_CROWDED: Final = ""


class _Session:
    """One session's files, the last written last."""

    def __init__(self) -> None:
        self.texts: dict[str, tuple[str, ...]] = {}
        self.size = 0
        #: It looks through at what is put here later.
        self.written = Written(texts=MappingProxyType(self.texts))

    def put(self, path: str, texts: tuple[str, ...]) -> None:
        self.size -= sum(map(len, self.texts.pop(path, ())))
        if len(self.texts) < _MAX_FILES or path == _CROWDED:
            self.texts[path] = texts
            self.size += sum(map(len, texts))
        else:
            self.texts[_CROWDED] = ()
        crowded = _CROWDED in self.texts
        wild = (*self.written.wild, path) if is_pattern(path) and path not in self.written.wild else self.written.wild
        if (crowded, wild) != (self.written.crowded, self.written.wild):
            self.written = msgspec.structs.replace(self.written, crowded=crowded, wild=wild)


class Remembered:
    """Used by the event loop's thread only: from the facts of a call to what it leaves nothing else is judged."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._writing: dict[tuple[str, str], set[str]] = {}
        self._shared: set[tuple[str, str]] = set()
        self._open: dict[tuple[str, str], Left] = {}

    def of(self, session_id: str) -> Written:
        """What is known now, to be read before anything else is put here."""
        return self._at(session_id).written

    def learn(self, key: tuple[str, str], decision_id: str, left: Left) -> None:
        """A call, by session and id, was allowed: it may have written from here on. Before its record is written."""
        self._store.written.told(decision_id)
        if not left:
            return
        session_id, call_id = key
        known = self._at(session_id).texts
        changed = {path: _bounded(known.get(path), texts) for path, texts in left.texts.items()}
        if left.crowded:
            changed[_CROWDED] = ()
        self._put(session_id, changed)
        self._open[key] = left
        for path in left.texts:
            writers = self._writing.setdefault((session_id, path), set())
            writers.add(call_id)
            if len(writers) > 1:
                self._shared.add((session_id, path))

    def ended(self, key: tuple[str, str], *, well: bool) -> None:
        """The call ended. well: it did all that it was to do."""
        left = self._open.pop(key, None)
        if left is None:
            return
        session_id, call_id = key
        known = self._at(session_id).texts
        sure = {}
        for path in left.texts:
            place = session_id, path
            if well and place not in self._shared and left.sure.get(path, known.get(path)) != known.get(path):
                sure[path] = left.sure[path]
            writers = self._writing[place]
            writers.discard(call_id)
            if not writers:
                del self._writing[place]
                self._shared.discard(place)
        session = self._store.session(session_id) if sure else None
        # Of several sandboxes each has a workspace of its own: what one call leaves in one is not what another's holds.
        if session is not None and not session.closed and self._store.sandboxes.count_of(session_id) <= 1:
            self._put(session_id, sure)

    def _at(self, session_id: str) -> _Session:
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = _Session()
            for path, texts in self._store.written.of(session_id):
                session.put(path, texts)
            if len(self._sessions) > _SESSIONS:
                self._sessions.popitem(last=False)
        else:
            self._sessions.move_to_end(session_id)
        return session

    def _put(self, session_id: str, changed: Texts) -> None:
        session = self._at(session_id)
        for path, texts in changed.items():
            session.put(path, texts)
        new = (*changed, *self._forgotten(session), _CROWDED)
        self._store.written.put(session_id, {path: session.texts[path] for path in new if path in session.texts})

    def _forgotten(self, session: _Session) -> list[str]:
        """The oldest texts, as many as are too much: from here on their files are written with what is not known."""
        gone = []
        for path in list(session.texts) if session.size > _MAX_KEPT else ():
            if session.size <= _MAX_KEPT:
                break
            if texts := session.texts[path]:
                session.texts[path] = ()
                session.size -= sum(map(len, texts))
                gone.append(path)
        return gone


def _bounded(known: tuple[str, ...] | None, texts: tuple[str, ...]) -> tuple[str, ...]:
    """What a file may hold, which `texts` say whole: none where what it held before is not known, or too much."""
    if known == () or not texts:
        return ()
    after = tuple(dict.fromkeys(texts))
    return after if len(after) <= _MAX_TEXTS else ()
