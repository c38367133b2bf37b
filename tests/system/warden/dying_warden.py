"""A warden that kills itself after one given step of making its first sandbox: python -m … CONFIG STEP."""

import asyncio
import os
import signal
import sys

import msgspec

from opensafe.config import Config
from opensafe.warden import process
from opensafe.warden.network import namespaces
from opensafe.warden.sandbox.control import ControlDriver
from opensafe.warden.sandbox.lifecycle import Lifecycle
from opensafe.warden.sandbox.limits import Cgroup
from opensafe.warden.sandbox.runsc import Runsc
from opensafe.warden.sandbox.state import State
from opensafe.warden.warden import Warden

STEPS = {
    "intent": (State, "intend"),
    "cgroup": (Cgroup, "create"),
    "namespace": (namespaces, "create"),
    "bundle": (Lifecycle, "_write_bundle"),
    "runsc under way": (process, "spawn"),
    "runsc create": (Runsc, "create"),
    "start": (ControlDriver, "start"),
}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(step: str) -> None:
    owner, name = STEPS[step]
    original = getattr(owner, name)
    if asyncio.iscoroutinefunction(original):

        async def awaited(*arguments, **options):
            await original(*arguments, **options)
            die()

        setattr(owner, name, awaited)
    else:

        def stepped(*arguments, **options):
            done = original(*arguments, **options)
            # The first child is `runsc --version`.
            if step != "runsc under way" or "create" in arguments[0]:
                die()
            return done

        setattr(owner, name, stepped)


if __name__ == "__main__":
    arm(sys.argv[2])
    asyncio.run(Warden.start(msgspec.json.decode(sys.argv[1], type=Config)))
