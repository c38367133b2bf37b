"""Bundles that people try: kept as files until their session's next one, and what the command said of each.

They are hostile: this process knows their size and digest and reads nothing in them; a confined child does. What it
prints is read by types, since a bundle may have taken it over.
"""

import asyncio
import hashlib
import os
import pathlib
from collections import OrderedDict
from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec

from opensafe.client import Client
from opensafe.errors import InvalidArgument, NotFound
from opensafe.model.decision import Action, RuleHit
from opensafe.model.records import DecisionRecord

from .board import target
from .children import Done, Turns, run

#: Candidates at once, of as many sessions; bytes of one; decisions of a replay, and bytes of their records.
KEPT_MAX: Final = 16
SIZE_MAX: Final = 16 << 20
DECISIONS_MAX: Final = 10_000
RECORDS_MAX: Final = 256 << 20
_PAGE: Final = 500
#: Changes that are listed.
LISTED: Final = 200


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that would be another."""

    index: int
    decision_id: str
    session_id: str
    principal: str
    tool: str
    old: Action
    new: Action
    old_rules: tuple[str, ...]
    rules: tuple[RuleHit, ...]


class _Place(msgspec.Struct, frozen=True):
    index: int


class _Summary(msgspec.Struct, frozen=True, kw_only=True):
    candidate_revision: str
    candidate_number: int
    candidate_digest: str
    candidate_key: str
    decisions: int
    changed: int
    loosened: int
    tightened: int
    other_rules: int
    calls_per_s: float


_Move = Annotated[str, msgspec.Meta(pattern="^(allow|review|block)>(allow|review|block)$")]


class _Details(msgspec.Struct, frozen=True, kw_only=True):
    skipped: int
    transitions: dict[_Move, int]
    rules: dict[str, int]
    changes: tuple[Change, ...]


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What `policy replay --json` printed. candidate_key: whom the signature names, unverified."""

    summary: _Summary
    details: _Details


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it when it was put in place."""

    activated: bool
    reason: str
    took_ms: int


class _Activation(msgspec.Struct, frozen=True, kw_only=True):
    summary: Settled


class Candidate(msgspec.Struct, kw_only=True):
    """A bundle of somebody's. name: as the browser called it. refused: why it is none; "" where `replayed` is set.

    targets: what the changed calls are about, by index.
    """

    path: pathlib.Path
    name: str
    digest: str
    size: int
    replayed: Replayed | None = None
    targets: dict[int, str] = {}
    refused: str = ""
    settled: Settled | None = None


class Candidates:
    """One for each of the last sessions that had one. place: a directory of this process's own."""

    def __init__(self, place: pathlib.Path) -> None:
        self._place = place
        self._turns = Turns()
        self._kept: OrderedDict[str, Candidate] = OrderedDict()

    def get(self, person: str) -> Candidate | None:
        """The candidate of a session, if it has one."""
        return self._kept.get(person)

    def read(self, person: str, digest: str) -> bytes:
        """The bytes that a person was shown as theirs. Raises NotFound where it is another candidate by now."""
        found = self._kept.get(person)
        content = found.path.read_bytes() if found else b""
        if hashlib.sha256(content).hexdigest() != digest:
            raise NotFound("this candidate is not kept any more", value=digest, remedy="Choose its file again.")
        return content

    def forget(self, person: str) -> None:
        """Take it away."""
        if found := self._kept.pop(person, None):
            found.path.unlink(missing_ok=True)

    async def replay(self, person: str, name: str, content: bytes, client: Client, last: int) -> Candidate:
        """Judge the `last` decisions that the client may see again on a bundle, and keep it, the old one forgotten.

        Raises InvalidArgument, Conflict, LimitExceeded, Unavailable.
        """
        if not 0 < len(content) <= SIZE_MAX:
            raise InvalidArgument("a bundle has another size", value=len(content), limit=f"1 to {SIZE_MAX} bytes")
        stem = self._place / os.urandom(8).hex()
        candidate = Candidate(
            path=stem.with_suffix(".tar.gz"), name=name, digest=hashlib.sha256(content).hexdigest(), size=len(content)
        )
        records = stem.with_suffix(".jsonl")
        words = ("policy", "replay", "--json", f"--keep={LISTED}", "--candidate", candidate.path, "--records", records)
        with self._turns.turn(person):
            try:
                candidate.path.write_bytes(content)
                await _take(client, records, last)
                done = await run(words)
                candidate.replayed, candidate.refused = _read(done, Replayed, candidate)
                if candidate.replayed:
                    candidate.targets = await asyncio.to_thread(_targets, records, candidate.replayed.details.changes)
            except BaseException:
                candidate.path.unlink(missing_ok=True)
                raise
            finally:
                records.unlink(missing_ok=True)
            if candidate.replayed and candidate.replayed.summary.candidate_digest != candidate.digest:
                candidate.replayed, candidate.refused = None, "the command told of another bundle"
            self.forget(person)
            self._kept[person] = candidate
            while len(self._kept) > KEPT_MAX:
                self.forget(next(iter(self._kept)))
        return candidate

    async def activate(self, person: str, digest: str, socket: pathlib.Path) -> Candidate:
        """Have the command put it in the daemon's place, by this process's rights there. Raises NotFound, Conflict."""
        with self._turns.turn(person):
            self.read(person, digest)
            candidate = self._kept[person]
            done = await run(("policy", "activate", "--json", candidate.path), OPENSAFE_SOCKET=str(socket))
            told, failed = _read(done, _Activation, candidate)
            candidate.settled = told.summary if told else Settled(activated=False, reason=failed, took_ms=0)
        return candidate


async def _take(client: Client, path: pathlib.Path, last: int) -> None:
    """The latest decisions that a client may see, the newest first, as lines."""
    left, size, before = min(last, DECISIONS_MAX), 0, 0
    with path.open("wb") as file:
        while left > 0 and size < RECORDS_MAX:
            page = await client.search_audit(kinds=("decision",), before_index=before, page_size=min(left, _PAGE))
            for record in page.records:
                size += file.write(record.line + b"\n")
            left -= len(page.records)
            before = page.next_before
            if not before:
                return


def _targets(path: pathlib.Path, changes: Iterable[Change]) -> dict[int, str]:
    """What the changed calls are about."""
    wanted = {change.index for change in changes}
    found = {}
    with path.open("rb") as file:
        for line in file:
            if (index := msgspec.json.decode(line, type=_Place).index) in wanted:
                found[index] = target(msgspec.json.decode(line, type=DecisionRecord))
    return found


def _read(done: Done, kind: type[Any], candidate: Candidate) -> tuple[Any, str]:
    """A report of that type, or why there is none."""
    if done.status in (0, 1):
        try:
            return msgspec.json.decode(done.out, type=kind), ""
        except (msgspec.DecodeError, RecursionError) as error:
            return None, f"the command's report can't be read: {error}"
    said = done.said.strip().removeprefix("opensafe: ").replace(str(candidate.path), candidate.name)
    if done.status < 0:
        return None, f"it was ended by signal {-done.status}: a bundle may use so much and no more. {said}".strip()
    return None, said or f"the command ended with {done.status}"
