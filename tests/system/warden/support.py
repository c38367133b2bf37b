"""A host directory for one daemon, a front's pen, and a caller's hands for programs."""

import asyncio
import dataclasses
import os
import pathlib
import secrets
import shutil
import tempfile

from opensafe.config import Caps, Config, Paths, Service
from opensafe.model.calls import Program
from opensafe.model.chain import Head, seal
from opensafe.model.ids import new_id
from opensafe.model.limits import CallLimits, SandboxLimits
from opensafe.model.sandbox import Launch, SandboxSpec
from opensafe.warden import kernel
from opensafe.warden.client import WardenClient
from opensafe.warden.protocol import Ended, RecordRef
from opensafe.warden.sandbox import image, reconcile
from opensafe.warden.sandbox.control import ControlDriver
from opensafe.warden.sandbox.driver import Driver
from opensafe.warden.sandbox.layout import Layout
from opensafe.warden.sandbox.lifecycle import Lifecycle
from opensafe.warden.sandbox.limits import Hierarchies
from opensafe.warden.sandbox.programs import Programs
from opensafe.warden.sandbox.runsc import Runsc
from opensafe.warden.sandbox.state import State

IMAGES = os.environ.get("OPENSAFE_TEST_IMAGES", "/opt/opensafe/images")
DIGEST = image.find(pathlib.Path(IMAGES), "base").digest
RUNSC = os.environ.get("OPENSAFE_TEST_RUNSC", "/opt/opensafe/bin/runsc")


class Host:
    """State and run directories of one daemon below /run: pytest's own are closed to the service user."""

    def __init__(self, native: pathlib.Path, **changes):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="opensafe-test-", dir="/run"))
        self.root.chmod(0o755)
        paths = Paths(
            state=str(self.root / "s"),
            run=str(self.root / "r"),
            runsc=RUNSC,
            native=str(native),
            images=IMAGES,
            bundle=str(self.root / "bundle"),  # not there, which is the front's concern
        )
        self.config = Config(paths=paths, service=Service(user="nobody"), caps=Caps(**changes))
        self.layout = Layout.of(paths)

    @property
    def instance(self) -> str:
        file = self.layout.state / "instance"
        return file.read_text() if file.exists() else "-"

    def leftovers(self) -> list[str]:
        """What the kernel still holds that only this daemon can have made."""
        return [*self.processes(), *self.mounts(), *self.cgroups(), *self.files()]

    def processes(self) -> list[str]:
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    command = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if str(self.layout.run).encode() in command:
                    found.append(f"process {entry.name} {command[:200]!r}")
        return found

    def mounts(self) -> list[str]:
        lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
        return [f"mount {line}" for line in lines if str(self.root) in line]

    def cgroups(self) -> list[str]:
        return [f"cgroup {path}" for path in pathlib.Path("/sys/fs/cgroup").glob(f"**/opensafe/{self.instance}")]

    def files(self) -> list[str]:
        made = (self.layout.bundles, self.layout.namespaces)
        return [f"file {path}" for directory in made if directory.exists() for path in directory.iterdir()]

    def remove(self) -> None:
        for segment in (self.layout.state / "audit").glob("segment-*"):
            kernel.unprotect(segment)
        shutil.rmtree(self.root)


class Front:
    """Writes decision records as the front does: on the descriptor that the warden hands out."""

    def __init__(self, audit: int):
        self._audit = audit
        self._head = Head()
        self._offset = os.fstat(audit).st_size

    def write(self, record: dict) -> RecordRef:
        sealed = seal(self._head, record)
        self._head = sealed.head
        os.write(self._audit, sealed.line + b"\n")
        ref = RecordRef(segment=0, offset=self._offset, length=len(sealed.line), leaf=sealed.leaf)
        self._offset += len(sealed.line) + 1
        return ref

    def decide(self, subject, action: str = "allow", *, users: tuple[str, ...] = ()) -> RecordRef:
        digest = None if subject is None else subject.subject_digest()
        decision = {"kind": "decision", "decision_id": new_id("dec"), "subject": digest}
        decision["result"] = {"action": action, "grant": {"users": list(users)}}
        return self.write(decision)


@dataclasses.dataclass
class Done:
    """A program that ended, and what it wrote."""

    ended: Ended
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return self.out.decode()


class Pipe:
    """One pipe; `take` hands an end over, `close` closes what is left."""

    def __init__(self):
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC)
        self._open = {self.reader, self.writer}

    def shut(self, *ends: int) -> None:
        for end in ends:
            if end in self._open:
                self._open.discard(end)
                os.close(end)

    def close(self) -> None:
        self.shut(*tuple(self._open))


class Running:
    """One started program: read its output while it runs, then its end."""

    def __init__(self, client: WardenClient, launch: Launch, streams: tuple[Pipe, Pipe, Pipe]):
        self.client, self.launch = client, launch
        self._stdin, self._stdout, self._stderr = streams
        self.out, self.err = bytearray(), bytearray()
        self._readers = [
            asyncio.create_task(asyncio.to_thread(self._collect, pipe, into))
            for pipe, into in ((self._stdout, self.out), (self._stderr, self.err))
        ]

    @staticmethod
    def _collect(pipe: Pipe, into: bytearray) -> None:
        while chunk := os.read(pipe.reader, 65536):
            into += chunk

    async def said(self, text: bytes) -> None:
        """Until `text` is in the output."""
        while text not in self.out:
            assert not self._readers[0].done(), f"ended without {text!r}: {bytes(self.out)!r} {bytes(self.err)!r}"
            await asyncio.sleep(0.002)

    async def feed(self, data: bytes) -> None:
        await asyncio.to_thread(os.write, self._stdin.writer, data)

    def end_input(self) -> None:
        self._stdin.shut(self._stdin.writer)

    async def kill(self) -> None:
        await self.client.kill(self.launch.exec_id)

    async def end(self) -> Done:
        ended = await self.client.wait(self.launch.exec_id)
        await self.drain()
        return Done(ended, bytes(self.out), bytes(self.err))

    async def drain(self) -> None:
        """The output to its end, whoever hears how the program ended."""
        await asyncio.gather(*self._readers)
        for pipe in (self._stdin, self._stdout, self._stderr):
            pipe.close()


class Caller:
    """A sandbox and what is done in it."""

    def __init__(self, client, front):
        self.client, self.front = client, front
        self.spec = SandboxSpec(sandbox_id=new_id("sb"), image_digest=DIGEST)

    async def create(self, limits: SandboxLimits | None = None, template: str = "base") -> "Caller":
        digest = image.find(pathlib.Path(IMAGES), template).digest
        self.spec = SandboxSpec(
            sandbox_id=new_id("sb"), template=template, image_digest=digest, limits=limits or SandboxLimits()
        )
        await self.client.create_sandbox(self.spec, self.front.decide(self.spec))
        return self

    async def delete(self) -> None:
        await self.client.delete_sandbox(self.spec.sandbox_id)

    def launch(self, *argv: str, profile: str = "default", env=None, cwd="/workspace", **limits) -> Launch:
        program = Program(argv=argv, env={"PATH": "/usr/bin:/bin"} if env is None else env, cwd=cwd)
        return Launch(
            sandbox_id=self.spec.sandbox_id,
            exec_id=new_id("exec"),
            program=program,
            profile=profile,
            limits=CallLimits(**limits),
        )

    async def start(self, launch: Launch, decision: RecordRef | None = None) -> Running:
        streams = (Pipe(), Pipe(), Pipe())
        try:
            await self.client.start(
                launch, decision or self.front.decide(launch), streams[0].reader, streams[1].writer, streams[2].writer
            )
        except BaseException:
            for pipe in streams:
                pipe.close()
            raise
        streams[0].shut(streams[0].reader)
        streams[1].shut(streams[1].writer)
        streams[2].shut(streams[2].writer)
        return Running(self.client, launch, streams)

    async def run(self, *argv: str, stdin: bytes = b"", **options) -> Done:
        running = await self.start(self.launch(*argv, **options))
        if stdin:
            await running.feed(stdin)
        running.end_input()
        return await running.end()

    async def sh(self, script: str, **options) -> Done:
        return await self.run("bash", "-c", script, **options)


class Direct:
    """Sandboxes and programs without decisions: the warden's inside, driven as a library with the driver of choice."""

    def __init__(self, host: Host, driver: str):
        layout = host.layout
        for directory in (layout.state, layout.runsc_root, layout.bundles):
            directory.mkdir(parents=True, exist_ok=True)
        (layout.state / "instance").write_text(secrets.token_hex(5))
        self.hierarchies = Hierarchies.find(host.instance)
        self.hierarchies.prepare()
        self.layout = layout
        self.state = State(layout.state / "warden.db")
        self.runsc = Runsc(layout)
        self.driver: Driver = ControlDriver(layout) if driver == "socket" else self.runsc
        self.lifecycle = Lifecycle(layout, self.hierarchies, self.state, self.runsc, self.driver, limit=8)
        self.programs = Programs(self.driver, self.lifecycle, limit=64)

    async def close(self) -> None:
        await self.programs.close()
        await self.lifecycle.close()
        reconcile.detach_mounts(self.layout)
        self.hierarchies.remove_parents()
        self.state.close()

    async def create_sandbox(self, spec: SandboxSpec, _: object = None) -> None:
        with self.lifecycle.reserved(spec):
            await self.lifecycle.create(spec)

    async def delete_sandbox(self, sandbox_id: str) -> None:
        await self.lifecycle.delete(sandbox_id)

    async def start(self, launch: Launch, _: object, stdin: int, stdout: int, stderr: int) -> None:
        with self.programs.reserved(launch):
            await self.programs.start(launch, stdin, stdout, stderr)

    async def wait(self, exec_id: str):
        return await self.programs.wait(exec_id)

    async def kill(self, exec_id: str) -> None:
        await self.programs.kill(exec_id)


class NoFront:
    """For Direct, which asks for no decision."""

    def decide(self, subject: object) -> None:
        return None
