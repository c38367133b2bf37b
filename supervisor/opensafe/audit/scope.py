"""Which records an export takes: all, one session's, one call's, those from a time on."""

import msgspec

from opensafe.model.records import Record, TornRecord


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Empty fields don't restrict. since_us: microseconds since the epoch."""

    session: str = ""
    call: str = ""
    since_us: int = 0

    @property
    def whole(self) -> bool:
        """Whether it takes every record."""
        return self == Scope()

    def takes(self, record: Record) -> bool:
        """Whether it takes this one. What tells no session, call or time is taken by no scope that asks for it."""
        if isinstance(record, TornRecord):
            return self.whole
        if record.time_us < self.since_us:
            return False
        if self.session and getattr(record, "session_id", "") != self.session:
            return False
        return not self.call or getattr(record, "call_id", "") == self.call
