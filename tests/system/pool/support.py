"""Tenants who claim from a warden's pool, and what its ledger and its host say of that."""

import asyncio
import json

from opensafe.image import manifest
from opensafe.model.ids import new_id
from opensafe.model.limits import SandboxLimits
from opensafe.model.sandbox import SandboxSpec
from opensafe.warden.sandbox.control import ControlDriver
from opensafe.warden.sandbox.limits import Hierarchies
from tests.system.warden.support import Caller

#: A program that each sandbox has, whatever its image: it asks for its process id.
PROBE = ("/.opensafe/probe", "syscall", "39")


class Tenants:
    def __init__(self, host, client, front):
        self.host, self.client, self.front = host, client, front
        self.driver = ControlDriver(host.layout)

    def spec(self, **limits):
        image = manifest.read(self.host.root / "images/base")
        return SandboxSpec(sandbox_id=new_id("sb"), image_digest=image.digest, limits=SandboxLimits(**limits))

    def decide(self, tenant, subject):
        record = {
            "kind": "decision",
            "decision_id": new_id("dec"),
            "subject": subject.subject_digest(),
            "result": {"action": "allow"},
            "input": {"principal": {"name": tenant}},
        }
        return self.front.write(record)

    async def create(self, tenant="default", *, require_warm=False, **limits):
        """Ask for a sandbox; the answer."""
        spec = self.spec(**limits)
        return await self.client.create_sandbox(spec, self.decide(tenant, spec), require_warm=require_warm)

    def in_(self, made):
        """Hands for programs in that sandbox."""
        caller = Caller(self.client, self.front)
        caller.spec = self.spec()
        caller.spec = type(caller.spec)(sandbox_id=made.sandbox_id, image_digest=caller.spec.image_digest)
        return caller

    async def states(self):
        return (await self.client.status()).pool

    async def until(self, holds):
        """Until this holds of the pool's states."""
        async with asyncio.timeout(60):
            while not holds(states := await self.states()):  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.02)
        return states

    async def filled(self):
        return await self.until(lambda states: all(one.ready == one.wanted for one in states))

    def ledger(self, kind):
        lines = (self.host.layout.state / "ledger.jsonl").read_text().splitlines()
        return [entry for entry in map(json.loads, lines) if entry["kind"] == kind]

    def cell_of(self, made):
        """Under which id on the host the sandbox was made."""
        [claim] = [entry for entry in self.ledger("claim") if entry["sandbox_id"] == made.sandbox_id]
        return claim["cell"]

    def hierarchies(self):
        return Hierarchies.find(self.host.instance)

    def containers(self):
        """Ids of all that exist on the host."""
        return self.hierarchies().present()
