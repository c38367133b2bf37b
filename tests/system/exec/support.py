"""What the tests of calls share: a place to run in, programs put into it, and calls read in one go."""

import asyncio
import pathlib

from opensafe.client import Started, Stderr, Stdout, collect
from opensafe.proof.planting import plant


class Place:
    """A session and its sandbox, with what tests do there."""

    def __init__(self, daemon, client, session, sandbox):
        self.daemon, self.client, self.session, self.sandbox = daemon, client, session, sandbox

    async def script(self, name, text):
        """Unpack a program in the workspace: policy does not read it, so that what it does is the test's business."""
        path = f"/workspace/{name}"
        await plant(self.client.files(self.session, self.sandbox), path, text.encode())
        return path

    def call(self, call_id, command, *, timeout_ms=None, **more):
        """A call of Bash, or of Exec where `command` is an argv."""
        tool, arguments = ("Bash", {"command": command}) if isinstance(command, str) else ("Exec", {"argv": command})
        if timeout_ms is not None:
            arguments["timeout_ms"] = timeout_ms
        return self.client.call(self.session, self.sandbox, call_id, tool, arguments, **more)

    async def run(self, call_id, command, *, keep=256 << 20, **more):
        """The whole call."""
        return await collect(self.call(call_id, command, **more), keep)

    async def background(self, call_id, command, **more):
        """Start the call, which goes on."""
        events = [event async for event in self.call(call_id, command, background=True, **more)]
        assert isinstance(events[-1], Started), events
        return events[-1]

    def attach(self, call_id="", **more):
        """Attach to a call."""
        return self.client.attach(self.session, call_id, **more)

    def processes(self):
        """Names of the guest's processes."""
        return self.daemon.guest_processes(self.sandbox)


async def until_output(call, wanted):
    """Iterate until the call wrote `wanted` on either stream; what it wrote."""
    seen = b""
    async for event in call:
        if isinstance(event, Stdout | Stderr):
            seen += event.data
            if wanted in seen:
                return seen
    raise AssertionError(f"the call ended after {seen!r}")


async def eventually(ask, holds):
    """Ask again until it holds: what goes on in a sandbox has no event to await."""
    for _ in range(600):
        answer = await ask()
        if holds(answer):
            return answer
        await asyncio.sleep(0.05)
    raise AssertionError(f"it never came to hold: {answer!r}")


def resident(daemon):
    """Memory of the front, in bytes."""
    return int(pathlib.Path(f"/proc/{daemon.child('front')}/statm").read_text().split()[1]) * 4096


def held(daemon):
    """Descriptors and threads of front and warden."""
    processes = [pathlib.Path(f"/proc/{pid}") for pid in (daemon.child("front"), daemon.process.pid)]
    return [len(list((process / kind).iterdir())) for process in processes for kind in ("fd", "task")]
