"""What became of sandboxes' connections, put on record as the egress helper and the packet rules tell it."""

from collections.abc import Callable

import msgspec

from opensafe.audit.log import AuditLog
from opensafe.model.connection import Connection
from opensafe.model.records import ConnectionRecord
from opensafe.warden.client import WardenClient


async def record_connections(warden: WardenClient, log: AuditLog, also: Callable[[Connection], None]) -> None:
    """Until cancelled. also: hears of each that is on record. Raises Unavailable, AuditError."""
    recorded = 0
    while True:
        told = await warden.next_connections(recorded)
        written = [log.write(as_record(one)) for one in told.connections]
        await log.sync(written[-1])  # one wait for all
        for one in told.connections:
            also(one)
        recorded = told.number


def as_record(connection: Connection) -> ConnectionRecord:
    """The record of a connection."""
    return ConnectionRecord(**msgspec.structs.asdict(connection))
