"""A daemon that can be made to die at a step, what is done with it meanwhile, and what must hold afterwards."""

import asyncio
import collections
import itertools
import json
import os
import pathlib
import sys

from opensafe import errors
from opensafe.audit.segment import segment_paths
from opensafe.audit.verify import verify_state
from opensafe.cli import leftovers
from opensafe.config import load
from opensafe.proof.private import DaemonFailedError
from opensafe.warden.sandbox.control import ControlDriver
from opensafe.warden.sandbox.layout import Layout
from opensafe.warden.waiting import readable
from tests.harness.daemon import Daemon

PATIENCE_S = 30
_numbers = itertools.count()


class Mortal(Daemon):
    """See faults.py."""

    @property
    def command(self):
        return [sys.executable, str(pathlib.Path(__file__).with_name("faults.py")), str(self.settings)]

    async def pid_of(self, role):
        """Its process. A child that died is there again in a moment."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    return self.pid if role == "warden" else self.child(role)
                except DaemonFailedError:
                    await asyncio.sleep(0.05)

    def fault(self, role):
        """The file that says where to die."""
        return self.state / "fault" if role == "warden" else self.state / role / "fault"

    def arm(self, role, step):
        """Let that part die at that step."""
        number, _, name = step.partition(" ") if step[0].isdigit() else ("1", "", step)
        # Whole before it can be read, and for its reader to write.
        spare = self.state / "fault.new"
        spare.write_text(f"{number} {name}")
        spare.chmod(0o666)
        spare.rename(self.fault(role))

    async def dies(self, role, step, work):
        """Work goes on while that part dies at that step. How the work ended: its result or the typed error."""
        pidfd = os.pidfd_open(await self.pid_of(role))
        try:
            self.arm(role, step)
            doing = asyncio.create_task(_ended(work))
            async with asyncio.timeout(PATIENCE_S):
                await readable(pidfd)
            if role == "warden":
                await asyncio.to_thread(self.process.wait)
            async with asyncio.timeout(PATIENCE_S):
                return await doing
        except TimeoutError:
            raise AssertionError(f"{role} did not get to {step}") from None
        finally:
            os.close(pidfd)
            self.fault(role).unlink(missing_ok=True)

    async def runner_waits(self, sandbox):
        """Until a runner waits for a call in that sandbox, and has the child that becomes the program."""
        driver = ControlDriver(Layout.of(load(self.settings).paths))
        async with asyncio.timeout(PATIENCE_S):
            while True:
                processes = await driver.processes(sandbox)
                runners = {one.pid for one in processes if (one.name, one.ppid) == ("run", 0)}
                if any(one.name == "run" and one.ppid in runners for one in processes):
                    return
                await asyncio.sleep(0.005)

    def left(self):
        """What `doctor` finds of this daemon's."""
        return [one for one in leftovers.find(self.run, self.state) if self.owns(f"{one.name} {one.said}")]

    def owns(self, text):
        """Whether the text names this daemon or one of its sandboxes."""
        instance = (self.state / "instance").read_text()
        return any(name in text for name in (self.run.name, instance, *self.sandboxes()))

    def sandboxes(self):
        """Every sandbox that was ever begun on a decision."""
        return {entry["sandbox_id"] for entry in self.entries() if entry["kind"] == "sandbox"}

    def entries(self):
        return [json.loads(line) for line in self.ledger()]

    def records(self):
        """All whole records."""
        lines = [line for path in segment_paths(self.state) for line in path.read_bytes().split(b"\n")[:-1]]
        return [json.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"}")]

    def verified(self):
        """Both logs hold, also against each other; nothing was started twice and no call ended twice."""
        found = verify_state(self.state)
        assert found.ok, found.findings
        starts = collections.Counter(entry["exec_id"] for entry in self.entries() if entry["kind"] == "start")
        records = self.records()
        ends = collections.Counter((r["session_id"], r["call_id"]) for r in records if r["kind"] == "outcome")
        decided = collections.Counter(
            (r["session_id"], r["call_id"])
            for r in records
            if r["kind"] == "decision" and r["call_id"] and r["purpose"] != "query"
        )
        for counted in (starts, ends, decided):
            assert [one for one, number in counted.items() if number > 1] == []
        assert starts.total() <= decided.total()
        return decided.keys() - ends.keys()


async def _ended(work):
    try:
        return await work
    except errors.OpenSafeError as error:
        return error


class Place:
    """A session and a sandbox of one client's."""

    def __init__(self, client, session, sandbox):
        self.client, self.session, self.sandbox = client, session, sandbox

    @classmethod
    async def make(cls, client):
        session = await client.create_session("tester")
        return cls(client, session, (await client.create_sandbox(session)).sandbox.sandbox_id)

    async def sh(self, call_id, command, **more):
        return await self.client.run_call(self.session, self.sandbox, call_id, "Bash", {"command": command, **more})

    async def mark(self, call_id):
        """Leave one line for each time this runs."""
        return await self.sh(call_id, f"echo {call_id} >> runs.txt")

    async def marks(self):
        seen = await self.sh(f"look-{next(_numbers)}", "touch runs.txt; cat runs.txt")
        return seen.stdout.decode().split()


def fresh(name):
    """A call id that was not used."""
    return f"{name}-{next(_numbers)}"
