"""What stands in a daemon's log."""

import asyncio
import json


async def records(client, last):
    """The principal's last records. All that it was told of is among them.

    An outcome is told when it is written and not yet on disk, where alone it can be read: a session that begins is told
    when it is on disk, and with it all before it.
    """
    session = await client.create_session("settles")
    await client.close_session(session)
    found = [json.loads(record.line) async for record in client.tail_audit(last + 2)]
    return [record for record in found if record.get("session_id") != session][-last:]


async def signed(client, size=None):
    """Wait until a checkpoint covers so many records; else those that are on record now."""
    async with asyncio.timeout(30):
        size = (await client.status()).audit_size if size is None else size
        while (await client.status()).checkpoint_size < size:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.1)
