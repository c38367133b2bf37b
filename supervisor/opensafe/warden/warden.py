"""The warden: the parts put together, the order of start and stop, and what each request does.

    async with await Warden.start(config, child_command=command) as warden:
        await warden.serve()

Start, each step of which refuses to go on with a StartError or an AuditError:

1. root, and nobody else on this state directory (a lock held for life);
2. runsc: present, dated, not too old; cgroup controllers;
3. reconcile: what an earlier run left is removed;
4. audit segments and ledger: opened, the ledger's chain verified, the log read from its last checkpoint on;
5. self-test: a real sandbox refuses what it must, and the control shows that the refusal is its doing;
6. the principals' socket directories, then the children: front and egress helper.

Stop goes the other way: children, programs, sandboxes, files.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import pathlib
import pwd
import re
import secrets
import socket
import stat
import time
from collections.abc import Iterator
from typing import Final, Self

import msgspec

from ..config import Config
from ..errors import AuditError, ConfigError, HostUnsuitable, InvalidArgument, NotFound, NoWarmSandbox, StartError
from ..model.ids import now_us
from ..model.sandbox import Launch, SandboxSpec
from . import children, protocol, selftest, server, wire
from .bundles import Bundles
from .checkpoints import Checkpoints
from .decisions import Decided, Decisions
from .ledger import Ledger
from .network import namespaces, sockets
from .network.links import Link
from .packets import Origin
from .sandbox import granted, reconcile, users
from .sandbox.control import ControlDriver
from .sandbox.image import Image
from .sandbox.keeping import kept
from .sandbox.layout import Layout
from .sandbox.lifecycle import Lifecycle
from .sandbox.limits import Hierarchies
from .sandbox.monitor import Monitor
from .sandbox.pool import Pool
from .sandbox.programs import Programs
from .sandbox.runsc import PLATFORM, Runsc, check_version
from .sandbox.sandbox import Sandbox
from .sandbox.sharing import Sharing
from .sandbox.state import State
from .segments import Segments
from .voiding import void
from .way_out import WayOut, clear

_log = logging.getLogger(__name__)

_INSTANCE_BYTES: Final = 5
#: Sandboxes in one answer, which has to fit into a packet.
_PAGE: Final = 1000
#: Work directories that only root looks into.
_PRIVATE: Final = 0o700
#: The state and run directories themselves: the audit log and the principals' sockets below are for others.
_PASSABLE: Final = 0o755


class Warden:
    """A started warden. Made by `start`; `close` undoes it completely."""

    def __init__(self, config: Config, layout: Layout) -> None:
        self._config = config
        self._layout = layout
        self._stack = contextlib.AsyncExitStack()
        self._version = ""
        self._removed: tuple[str, ...] = ()
        self._checks: tuple[protocol.Check, ...] = ()
        self._checked_us = 0
        self._hierarchies: Hierarchies
        self._segments: Segments
        self._ledger: Ledger
        self._checkpoints: Checkpoints
        self._decisions: Decisions
        self._bundles: Bundles
        self._lifecycle: Lifecycle
        self._programs: Programs
        self._monitor: Monitor
        self._pool: Pool
        self._way_out: WayOut | None = None
        self._sharing = Sharing(apart=config.egress.grants == "call")
        self._children: children.Children | None = None
        #: Set by the front's first Serving, and the loop time of its last.
        self.front_serves = asyncio.Event()
        self.heartbeat = 0.0
        self._connections: set[asyncio.Task[None]] = set()

    @classmethod
    async def start(cls, config: Config, *, child_command: children.Command | None = None) -> Self:
        """Start, in the order above. Without `child_command` there are no children: see `connect`."""
        warden = cls(config, Layout.of(config.paths))
        try:
            await warden._start(child_command)
        except BaseException as error:
            await warden.close()
            if isinstance(error, OSError):
                raise StartError(
                    f"what the daemon needs on this host can't be had: {error}",
                    remedy="Mend what is named (make room where the disk is full), then start again.",
                ) from error
            raise
        return warden

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def audit(self) -> int:
        """The descriptor that a front gets for its audit records."""
        return self._segments.writer

    def passed(self, answer: protocol.Answer) -> tuple[int, ...]:
        """See server.Operations."""
        if isinstance(answer, protocol.SegmentBegun):
            return (os.dup(self.audit),)
        return self._way_out.passed(answer) if self._way_out is not None else ()

    async def serve(self) -> None:
        """Keep the children alive until this is cancelled."""
        if self._children is None:
            raise ConfigError("there are no children to keep")
        await self._children.run()

    async def stop_children(self) -> None:
        """Tell the children to drain and end; `serve` returns when they have."""
        if self._children is not None:
            await self._children.close()

    async def close(self) -> None:
        """Stop. Nothing of ours is left in the kernel afterwards."""
        await self._stack.aclose()

    def connect(self, allowed: frozenset[type] = server.FRONT) -> socket.socket:
        """The peer's end of a new connection, served until that end is closed or the warden is."""
        ours, theirs = wire.pair()
        task = asyncio.create_task(server.Connection(ours, self, allowed).run())
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        return theirs

    async def answer(self, request: protocol.Request, descriptors: list[int]) -> protocol.Answer:
        """See server.Operations."""
        number = request.request
        match request:
            case protocol.CreateSandbox():
                return await self._create(request)
            case protocol.FindImage():
                named = await self._lifecycle.images.look_up(request.template)
                return protocol.ImageFound(request=number, digest=named.digest)
            case protocol.FindUser():
                return await self._find_user(request)
            case protocol.Start():
                return await self._start_program(request, descriptors)
            case protocol.Kill():
                await self._programs.kill(request.exec_id)
                return protocol.Done(request=number)
            case protocol.DeleteSandbox():
                await self._lifecycle.delete(request.sandbox_id)
                self._pool.wake()
                return protocol.Done(request=number)
            case protocol.Signal():
                await self._programs.signal(request.exec_id, request.signal, whole_tree=request.whole_tree)
                return protocol.Done(request=number)
            case protocol.Resize():
                self._programs.resize(request.exec_id, request.terminal)
                return protocol.Done(request=number)
            case protocol.PauseSandbox():
                await self._lifecycle.pause(request.sandbox_id)
                return protocol.Done(request=number)
            case protocol.ResumeSandbox():
                await self._lifecycle.resume(request.sandbox_id)
                return protocol.Done(request=number)
            case protocol.ListSandboxes():
                return self._list(number, request.after)
            case protocol.AwaitLost():
                return protocol.Lost(request=number, losses=await self._lifecycle.losses.after(request.after))
            case protocol.Status():
                return self._status(number)
            case protocol.NextSegment():
                return protocol.SegmentBegun(request=number, number=self._segments.begin_next())
            case protocol.Serving():
                self.heartbeat = asyncio.get_running_loop().time()
                self.front_serves.set()
                return protocol.Heard(request=number, blocked=str(self._checkpoints.failure or ""))
            case protocol.AwaitBundle():
                return protocol.BundleOffered(request=number, offer=await self._bundles.offered(request.after))
            case protocol.AskHelper():
                await self._bundles.mailbox.ask(request.digest, swap=request.swap)
                return protocol.Done(request=number)
            case protocol.NextBreach():
                found, breach = await self._monitor.breaches.next(request.after)
                return protocol.BreachFound(request=number, number=found, breach=breach)
            case (
                protocol.OpenGateway()
                | protocol.Vet()
                | protocol.ListEndpoints()
                | protocol.Dial()
                | protocol.Cut()
                | protocol.Report()
                | protocol.NextConnections()
                | protocol.LookOut()
                | protocol.NextLook()
            ):
                if self._way_out is None:
                    raise NotFound("sandboxes have no way out", remedy="Set egress.enabled.")
                answer = await self._way_out.answer(request)
                if isinstance(request, protocol.Report):
                    self._monitor.spent(request.connections)
                return answer
            case protocol.NextStep():
                step = await self._bundles.mailbox.next(request.finished, request.error)
                return msgspec.structs.replace(step, request=number)

    async def ended(self, start: protocol.Start) -> protocol.Ended:
        """See server.Operations."""
        exec_id = start.launch.exec_id
        ending = await self._programs.wait(exec_id)
        return protocol.Ended(request=start.request, exec_id=exec_id, **msgspec.structs.asdict(ending))

    async def _start(self, child_command: children.Command | None) -> None:
        config, layout, stack = self._config, self._layout, self._stack
        if os.geteuid() != 0:
            raise HostUnsuitable("the warden needs root", value=f"uid {os.geteuid()}", remedy="Start it as root.")
        account = _account(config.service.user, "service.user")
        children.open_files()
        for directory, mode in (
            *((layout.state, _PASSABLE), (layout.run, _PASSABLE), (layout.runsc_root, _PRIVATE)),
            *((layout.bundles, _PRIVATE), (layout.namespaces, _PRIVATE)),
        ):
            directory.mkdir(mode=mode, parents=True, exist_ok=True)
        instance = stack.enter_context(_locked_instance(layout.state))

        self._version = await check_version(layout.runsc)
        hierarchies = self._hierarchies = Hierarchies.find(instance)
        try:
            hierarchies.prepare()
        except OSError as error:
            raise HostUnsuitable(f"no cgroup of our own: {error}", remedy="Give the daemon a cgroup tree.") from error
        stack.callback(hierarchies.remove_parents)

        state = State(layout.state / "warden.db")
        stack.callback(state.close)
        runsc, driver = Runsc(layout), ControlDriver(layout)
        self._removed = await reconcile.reconcile(layout, hierarchies, state) + await clear(layout, instance)

        self._segments = Segments(layout.state / "audit", account.pw_gid, config.audit.segment_bytes)
        stack.callback(self._segments.close)
        self._ledger = Ledger(layout.state / "ledger.jsonl", account.pw_gid)
        stack.callback(self._ledger.close)
        self._checkpoints = Checkpoints(
            layout.state, account.pw_gid, instance, self._segments, self._ledger, config.audit
        )
        stack.push_async_callback(self._checkpoints.close)
        await self._checkpoints.begin()
        signed = self._checkpoints.last
        void(self._ledger, self._segments, signed.ledger.size if signed is not None else 0)
        self._decisions = Decisions(self._segments, self._ledger, self._checkpoints)

        self._lifecycle = Lifecycle(layout, hierarchies, state, runsc, driver, limit=config.caps.sandboxes)
        stack.callback(reconcile.detach_mounts, layout)
        stack.push_async_callback(self._lifecycle.close)
        self._programs = Programs(
            driver, self._lifecycle, limit=config.caps.running_calls, on_end=self._record_end, ahead=True
        )
        stack.push_async_callback(self._programs.close)
        stack.push_async_callback(self._end_connections)
        namespaces.remove(layout.gofers_namespace)
        await namespaces.create(layout.gofers_namespace)
        self._checks = await selftest.run(layout, self._lifecycle, driver)
        self._checked_us = now_us()
        keep = config.egress.grants == "session"
        self._monitor = Monitor(driver, on_silence=self._end_helper, keep=keep)
        self._monitor.end_call = self._programs.break_off

        self._bundles = Bundles(pathlib.Path(config.paths.bundle), layout.state / "bundles", layout.state / "audit")
        stack.callback(self._bundles.close)
        if child_command is not None:
            self._lifecycle.monitor = self._monitor
            if config.egress.enabled:
                await self._open_way_out(instance, account)
            stack.push_async_callback(self._monitor.close)
            stack.push_async_callback(_end_task, self._bundles.start())
            sockets.prepare(layout.run / "principals", config.principals, account.pw_uid)
            if config.telemetry.metrics == "unix":
                group = config.telemetry.metrics_group
                sockets.prepare_one(layout.run / "metrics", group, account.pw_uid, "telemetry.metrics")
            self._children = children.Children(
                layout, account, child_command, lambda: self.audit, self._serve_child, config.service.drain_s
            )
            stack.push_async_callback(self._children.close)
        else:
            self.front_serves.set()  # there is none that the pool would have to wait for
        self._pool = Pool(config.pool, layout, self._lifecycle, self._programs, driver, self._ledger)
        stack.push_async_callback(self._pool.close)
        self._pool.start(after=self.front_serves)

    async def _open_way_out(self, instance: str, service: pwd.struct_passwd) -> None:
        settings = self._config.egress
        own = _account(settings.user, "egress.user", service)
        opened = await WayOut.open(self._layout, settings, instance, service, own, self._origin)
        self._way_out = self._lifecycle.way_out = opened
        self._stack.push_async_callback(self._close_way_out, opened)

    async def _close_way_out(self, opened: WayOut) -> None:
        """Before the sandboxes go: what they hold open is cut."""
        self._lifecycle.way_out = None
        await opened.close()

    async def _create(self, request: protocol.CreateSandbox) -> protocol.SandboxMade:
        started = time.monotonic_ns()
        wanted = request.spec
        try:
            with self._lifecycle.reserved(wanted):
                sandbox, claim_ns = await self._create_decided(request)
        finally:
            self._pool.created()
        self._programs.prepare(sandbox)
        return protocol.SandboxMade(
            request=request.request,
            sandbox_id=wanted.sandbox_id,
            create_ns=time.monotonic_ns() - started,
            warm=claim_ns > 0,
            claim_ns=claim_ns,
        )

    async def _create_decided(self, request: protocol.CreateSandbox) -> tuple[Sandbox, int]:
        """The sandbox, and the nanoseconds of its claim; 0 for one that was made."""
        wanted = request.spec
        decided = self._decisions.check(request.decision, wanted)
        tenant = decided.input.principal.name
        if request.require_warm and not self._pool.has(tenant, wanted):
            raise _no_warm(wanted)
        # No await between the check and the entry: the decision is used up before anybody else can use it.
        position = self._ledger.append(
            "sandbox", sandbox_id=wanted.sandbox_id, leaf=request.decision.leaf, subject=decided.subject or ""
        )
        sandbox, claim_ns = await self._claim(tenant, request, position)
        if sandbox is None:
            if request.require_warm:
                raise _no_warm(wanted)
            await self._pool.make_room()
            sandbox = await self._lifecycle.create(wanted)
        sandbox.session_id = decided.session_id
        return sandbox, claim_ns

    async def _claim(self, tenant: str, request: protocol.CreateSandbox, position: int) -> tuple[Sandbox | None, int]:
        """A sandbox out of the pool, where there is one that is fit, and the nanoseconds that took it. Nothing happens
        before the decision is on disk, the entry that ends at `position`, and the one that names the cell.
        """
        wanted = request.spec
        while (cell := self._pool.take(tenant, wanted)) is not None:
            try:
                position = self._ledger.append("claim", sandbox_id=wanted.sandbox_id, cell=cell.container)
                await self._on_disk(request.decision, position)
            except BaseException:
                self._pool.give_up(cell)
                raise
            begun = time.monotonic_ns()
            if await self._pool.claim(cell, wanted):
                return cell, time.monotonic_ns() - begun
        await self._on_disk(request.decision, position)
        return None, 0

    async def _start_program(self, request: protocol.Start, descriptors: list[int]) -> protocol.Started:
        launch = request.launch
        for descriptor in descriptors:
            # A directory or device of the front's would be the guest's then; a file would be written from its start.
            if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                raise InvalidArgument("standard streams must be pipes")
        with self._programs.reserved(launch):
            decided = self._decisions.check(request.decision, launch)
            if await self._sharing.waited(launch, networked=bool(decided.result.grant.network)):
                decided = self._decisions.check(request.decision, launch)
            if launch.user is not None:
                image = self._image_of(launch.sandbox_id)
                users.check(image.rootfs, image.digest, launch.user, decided.result.grant.users)
            with self._shared(launch, decided):
                # As in _create.
                position = self._ledger.append(
                    "start",
                    sandbox_id=launch.sandbox_id,
                    exec_id=launch.exec_id,
                    leaf=request.decision.leaf,
                    subject=decided.subject or "",
                )
                await self._on_disk(request.decision, position)
                stdin, stdout, stderr = descriptors
                programs = self._files(launch.sandbox_id, decided.result.grant.programs)
                announced = decided.announcement(launch, programs)
                await self._programs.start(launch, stdin, stdout, stderr, announced=announced)
        return protocol.Started(request=request.request, exec_id=launch.exec_id)

    @contextlib.contextmanager
    def _shared(self, launch: Launch, decided: Decided) -> Iterator[None]:
        """A place in the sandbox until the program's end, or its start has failed. Raises Conflict, LimitExceeded."""
        sandbox, egress = self._lifecycle.get(launch.sandbox_id), self._config.egress
        network = decided.result.grant.network
        if sandbox.link is None:
            yield
            return
        self._sharing.enter(launch, networked=bool(network))
        try:
            if egress.grants == "call":
                yield
            else:
                everywhere, session_id = self._lifecycle.all(), decided.session_id
                with kept(launch, sandbox, everywhere, session_id, network, egress.session_names):
                    yield
        except BaseException:
            self._sharing.leave(launch.sandbox_id, launch.exec_id)
            raise

    async def _find_user(self, request: protocol.FindUser) -> protocol.UserFound:
        if request.sandbox_id is None:
            image = await self._lifecycle.images.look_up(request.template)
        else:
            image = self._image_of(request.sandbox_id)
        return protocol.UserFound(request=request.request, user=users.find(image.rootfs, image.digest, request.user))

    def _image_of(self, sandbox_id: str) -> Image:
        spec = self._lifecycle.get(sandbox_id).spec
        return self._lifecycle.images.of(spec.template, spec.image_digest)

    async def _on_disk(self, decision: protocol.RecordRef, position: int) -> None:
        """Return when decision and ledger entry are both on disk. Raises WardenRefused, AuditError (ADR 0031)."""
        entered = asyncio.ensure_future(self._ledger.durable(position))
        try:
            await self._decisions.settled(decision)
        finally:
            await entered

    def _files(self, sandbox_id: str, programs: str | tuple[str, ...]) -> tuple[str, ...] | None:
        """The files of the sandbox's image that a grant covers; None for any."""
        if programs == granted.ANY:
            return None
        image = self._image_of(sandbox_id)
        return granted.files(image.rootfs, image.digest, programs)

    def _end_helper(self) -> None:
        if self._children is not None:
            self._children.end(children.Role.HELPER)

    def _record_end(self, exec_id: str, sandbox_id: str) -> None:
        self._monitor.ended(sandbox_id, exec_id)
        if self._way_out is not None and self._sharing.networked(sandbox_id, exec_id):
            # Its place is free once its connections are cut: they must not be taken for the next call's.
            self._way_out.cut(self._link_of(sandbox_id), then=lambda: self._sharing.leave(sandbox_id, exec_id))
        else:
            self._sharing.leave(sandbox_id, exec_id)
        try:
            self._ledger.append("end", sandbox_id=sandbox_id, exec_id=exec_id)
        except AuditError as error:
            # What it started is on record; every further start is refused by the same error.
            _log.error("the end of %s is not in the ledger: %s", exec_id, error)

    def _list(self, request: int, after: str) -> protocol.Sandboxes:
        found = sorted((one for one in self._lifecycle.all() if one.sandbox_id > after), key=lambda one: one.sandbox_id)
        page = tuple(
            protocol.SandboxState(
                sandbox_id=one.sandbox_id,
                template=one.spec.template,
                state=one.state,
                created_unix_ns=one.created_unix_ns,
                cause=one.cause,
            )
            for one in found[:_PAGE]
        )
        return protocol.Sandboxes(request=request, sandboxes=page, more=len(found) > len(page))

    def _status(self, request: int) -> protocol.StatusReport:
        signed, used = self._checkpoints.last, self._hierarchies.usage()
        return protocol.StatusReport(
            request=request,
            runsc_version=self._version,
            runsc_platform=PLATFORM,
            checks=self._checks,
            sandboxes=len(self._lifecycle),
            programs=len(self._programs),
            ledger_size=self._ledger.size,
            append_only=self._segments.append_only,
            checkpoint_size=signed.size if signed is not None else 0,
            checkpoint_us=signed.time_us if signed is not None else 0,
            checkpoint_failure=str(self._checkpoints.failure or ""),
            removed_at_start=self._removed,
            helper_bundle=self._bundles.mailbox.serving,
            monitor=self._monitor.counts,
            pool=self._pool.states,
            checked_us=self._checked_us,
            sandbox_cpu_ns=used.cpu_ns,
            sandbox_memory_bytes=used.memory_bytes,
        )

    async def _serve_child(self, role: children.Role, end: socket.socket, feed: socket.socket | None) -> None:
        if role is children.Role.HELPER and feed is not None:
            watching = asyncio.create_task(self._monitor.serve(feed), name="monitor")
            await server.Connection(end, self, server.HELPER).run()
            self._cut_all()
            self._bundles.mailbox.ended()
            if self._way_out is not None:
                self._way_out.ended()
            await watching
            return
        await server.Connection(end, self, server.FRONT).run()
        self._cut_all()
        # The pipes' other ends went with the front: what runs on has nobody who would hear of it.
        await self._programs.kill_all()

    def _link_of(self, sandbox_id: str) -> Link | None:
        return next((one.link for one in self._lifecycle.all() if one.sandbox_id == sandbox_id), None)

    def _origin(self, link: Link) -> Origin:
        sandbox_id = next((one.sandbox_id for one in self._lifecycle.all() if one.link == link), "")
        living = self._sharing.living(sandbox_id)
        return Origin(
            sandbox_id=sandbox_id, call=self._monitor.call(sandbox_id, living[0]) if len(living) == 1 else None
        )

    def _cut_all(self) -> None:
        """Nobody judges or records any more what is open."""
        if self._way_out is not None:
            self._way_out.cut_all()

    async def _end_connections(self) -> None:
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


def _no_warm(wanted: SandboxSpec) -> NoWarmSandbox:
    return NoWarmSandbox(
        "no warm sandbox of this kind is ready",
        value=wanted.template,
        remedy="Repeat later, or without require_warm; a `[[pool]]` of these limits makes them.",
    )


async def _end_task(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _account(user: str, key: str, other: pwd.struct_passwd | None = None) -> pwd.struct_passwd:
    """The unprivileged user that the settings name under `key`; another than `other`. Raises HostUnsuitable."""
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise HostUnsuitable(
            f"the user of {key} does not exist", value=user, remedy=f"`make setup` makes it; or set {key}."
        ) from None
    if account.pw_uid == 0 or (other is not None and account.pw_uid == other.pw_uid):
        raise HostUnsuitable(
            f"the user of {key} is root, or another part's",
            value=user,
            remedy=f"Set {key} to an unprivileged user of its own.",
        )
    return account


@contextlib.contextmanager
def _locked_instance(state: pathlib.Path) -> Iterator[str]:
    """The name that tells this daemon's kernel objects from another's; locked for as long as it is in use."""
    descriptor = os.open(state / "instance", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StartError(
                "another daemon runs on this state directory", value=state, remedy="Stop it, or set other paths."
            ) from None
        instance = os.read(descriptor, 2 * _INSTANCE_BYTES).decode("ascii", "replace")
        if re.fullmatch(rf"[0-9a-f]{{{2 * _INSTANCE_BYTES}}}", instance) is None:
            instance = secrets.token_hex(_INSTANCE_BYTES)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, instance.encode(), 0)
        yield instance
    finally:
        os.close(descriptor)
