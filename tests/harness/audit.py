"""The audit log as a client sees it."""

import json


async def records(client, last):
    """The last records that the client's principal may see."""
    return [json.loads(record.line) async for record in client.tail_audit(last)]
