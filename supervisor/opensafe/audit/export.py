"""The audit log for other systems: one line a record, as OCSF, as CEF or as it is, read as a stream.

The chain is verified on the way, and secrets are masked once more (model/masking.py): what leaves the host may go
where the log does not. Nothing is left out silently: `Export` counts what has no event.
"""

import enum
import pathlib
from collections import Counter
from collections.abc import Iterator

import msgspec

from opensafe.model import chain
from opensafe.model.checkpoint import NoteError, claimed, parse_key
from opensafe.model.masking import mask
from opensafe.model.records import DaemonRecord, Record

from . import cef, ocsf
from .ocsf_event import Event, Place
from .scope import Scope
from .verify import read_records


class Format(enum.StrEnum):
    """ocsf: events of OCSF 1.8, a JSON object each. cef: CEF:0. jsonl: `{"leaf": …, "record": …}`."""

    OCSF = "ocsf"
    CEF = "cef"
    JSONL = "jsonl"


class Export:
    """One export. The counts are those of what `lines` has yielded so far."""

    def __init__(self, state: pathlib.Path, form: Format, scope: Scope) -> None:
        self._state = state
        self._form = form
        self._scope = scope
        self._mapper = ocsf.Mapper()
        self._chain = _chain_name(state)
        self._signed = _signed(state)
        self._version = ""
        self._time_us = 0
        #: Records that the scope takes, and of those the ones that have no event, by kind.
        self.records = 0
        self.unmapped: Counter[str] = Counter()
        #: Lines in which a secret was masked, by the rule's name.
        self.masked: Counter[str] = Counter()
        #: The first bad record and why it is one; the export ends there.
        self.broken: chain.ChainBrokenError | None = None

    def lines(self) -> Iterator[str]:
        """Each line, without newline. Raises AuditError where there is nothing to read."""
        try:
            for link, record in read_records(self._state, live=True):
                made = self._line(link, record)
                if made is not None:
                    yield made
        except chain.ChainBrokenError as error:
            self.broken = error
            if self._form is not Format.JSONL:
                place = Place(index=error.index, leaf="", prev="", chain=self._chain, version=self._version)
                yield self._written(ocsf.broken(place, error.why, self._time_us))

    def _line(self, link: chain.Link, record: Record) -> str | None:
        if isinstance(record, DaemonRecord):
            self._version = record.version
        self._time_us = getattr(record, "time_us", self._time_us)
        wanted = self._scope.takes(record)
        self.records += wanted
        if self._form is Format.JSONL:
            return self._masked({"leaf": link.leaf, "record": link.record}) if wanted else None
        place = Place(
            index=link.index,
            leaf=link.leaf,
            prev=link.record["prev"],
            chain=self._chain,
            signed=self._signed,
            version=self._version,
        )
        event = self._mapper.event(record, place)  # of all: a later outcome refers to a decision before the scope
        if not wanted:
            return None
        if event is None:
            self.unmapped[str(record.__struct_config__.tag)] += 1
            return None
        return self._written(event)

    def _written(self, event: Event) -> str:
        text = self._masked(event)
        return text if self._form is Format.OCSF else cef.line(msgspec.json.decode(text))

    def _masked(self, value: Event) -> str:
        text, kinds = mask(msgspec.json.encode(value).decode())
        self.masked.update(kinds)
        return text


def _chain_name(state: pathlib.Path) -> str:
    try:
        return parse_key((state / "audit" / "key.pub").read_text()).name
    except (OSError, UnicodeDecodeError, NoteError):
        return ""  # never signed


def _signed(state: pathlib.Path) -> int:
    """How many records the last checkpoint says it covers. Nothing is verified by that."""
    try:
        return claimed((state / "audit" / "checkpoint").read_bytes()).size
    except (OSError, NoteError):
        return 0
