"""A warden that kills itself after one given step of keeping or claiming a cell: python -m … CONFIG STEP."""

import asyncio
import os
import pathlib
import signal
import sys
import types

import msgspec

from opensafe.config import Config
from opensafe.warden.client import WardenClient
from opensafe.warden.ledger import Ledger
from opensafe.warden.sandbox.layout import Layout
from opensafe.warden.sandbox.lifecycle import Lifecycle
from opensafe.warden.sandbox.pool import Pool
from opensafe.warden.sandbox.programs import Programs
from opensafe.warden.sandbox.sandbox import Sandbox
from opensafe.warden.warden import Warden
from tests.system.pool.support import Tenants
from tests.system.warden.support import Front

STEPS = {
    "a cell's entry": (Ledger, "append", lambda args: args[1] == "pool"),
    "made": (Lifecycle, "make", lambda args: args[0].monitor is None and args[1].limits.pids == 77),
    "warmed": (Programs, "run_first", lambda _: True),
    "paused": (Sandbox, "pause", lambda _: True),
    "a claim's entry": (Ledger, "append", lambda args: args[1] == "claim"),
    "looked at": (Pool, "_check", lambda _: True),
    "resumed": (Sandbox, "resume", lambda _: True),
}


def arm(step):
    owner, name, applies = STEPS[step]
    original = getattr(owner, name)

    def die_if(args):
        if applies(args):
            os.kill(os.getpid(), signal.SIGKILL)

    async def awaited(*args, **options):
        done = await original(*args, **options)
        die_if(args)
        return done

    def stepped(*args, **options):
        done = original(*args, **options)
        die_if(args)
        return done

    setattr(owner, name, awaited if asyncio.iscoroutinefunction(original) else stepped)


async def main(config):
    host = types.SimpleNamespace(root=pathlib.Path(config.paths.state).parent, layout=Layout.of(config.paths))
    async with await Warden.start(config) as warden:
        client = WardenClient(warden.connect())
        tenants = Tenants(host, client, Front(warden.audit))
        await tenants.filled()
        await tenants.create(require_warm=True, pids=77)
        await client.close()


if __name__ == "__main__":
    arm(sys.argv[2])
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Config)))
