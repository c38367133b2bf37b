"""What stands in a daemon's log."""

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
