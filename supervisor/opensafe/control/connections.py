"""What became of sandboxes' connections, put on record as the egress helper tells it."""

import msgspec

from opensafe.audit.log import AuditLog
from opensafe.model.connection import Connection
from opensafe.model.records import ConnectionRecord
from opensafe.warden.client import WardenClient


async def record_connections(warden: WardenClient, log: AuditLog) -> None:
    """Until cancelled. Raises Unavailable, AuditError."""
    recorded = 0
    while True:
        told = await warden.next_connections(recorded)
        written = [log.write(as_record(one)) for one in told.connections]
        await log.sync(written[-1])  # one wait for all
        recorded = told.number


def as_record(connection: Connection) -> ConnectionRecord:
    """The record of a connection."""
    return ConnectionRecord(**msgspec.structs.asdict(connection))
