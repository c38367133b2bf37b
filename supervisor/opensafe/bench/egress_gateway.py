"""The two gateways of `opensafe bench egress`: ours, whose Envoy asks the helper, and the same whose Envoy asks nobody.

Namespace, rules, Envoy and its configuration are the warden's own code for both, and so is the connection over which
names are vetted and what happened is reported. The helper is the daemon's program, led by a signed bundle and fed with
calls as the warden does it. What the warden itself does is done in the bench's process.
"""

import asyncio
import contextlib
import hashlib
import json
import pathlib
import pwd
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec
from pyroute2 import IPRoute

from opensafe.config import Config, EgressSettings, Paths
from opensafe.errors import HostUnsuitable, OpenSafeError
from opensafe.model.calls import Principal
from opensafe.model.policy_input import BudgetInput, SessionInput
from opensafe.model.usage import Usage
from opensafe.policy.location import archived_path
from opensafe.warden import feed, protocol, server, way_out, wire
from opensafe.warden.network import gateway, links, namespaces
from opensafe.warden.network.envoy import Envoy
from opensafe.warden.network.gateway import Gateway
from opensafe.warden.network.links import Link
from opensafe.warden.network.sockets import prepare_one
from opensafe.warden.sandbox.layout import Layout

_START_S: Final = 60
_ASKING: Final = ("envoy.filters.network.ext_authz", "envoy.filters.http.ext_authz")
_GUEST: Final = "guest-"
#: Stands for the number of the child's connection.
CONNECTION: Final = "{connection}"
_HELPER: Final = "import sys; from opensafe.daemon.helper import main; sys.exit(main(sys.argv[1:]))"
_CALM: Final = {"calls_1m": 0, "blocks_10m": 0}


class Guest(msgspec.Struct, frozen=True):
    """A namespace that is joined to a gateway as a sandbox's is."""

    namespace: pathlib.Path
    link: Link


class UnaskedEnvoy(Envoy):
    """Envoy with the same configuration but for the filters that ask."""

    def _prepare(self) -> None:
        super()._prepare()
        bootstrap = json.loads(self._config.read_text())
        if not _without(bootstrap):
            raise OpenSafeError("Envoy's configuration has no filter that asks: there is nothing to compare")
        self._config.write_text(json.dumps(bootstrap))


def _without(value: object) -> int:
    """Take the filters that ask out of all lists in a JSON value; how many there were."""
    taken = 0
    if isinstance(value, list):
        kept = [one for one in value if not (isinstance(one, dict) and one.get("name") in _ASKING)]
        taken, value[:] = len(value) - len(kept), kept
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return taken + sum(_without(one) for one in inner)


class Side:
    """One gateway with its Envoy and the process beside it (pid). `guest` joins namespaces."""

    def __init__(self, own: Gateway, directory: pathlib.Path, pid: int) -> None:
        self._gateway = own
        self._directory = directory
        self.pid = pid

    async def guest(self, name: str) -> Guest:
        """A namespace of that name, with the address of its link. It stays until the gateway's end."""
        path = self._directory / f"{_GUEST}{name}"
        await namespaces.create(path)
        link = await self._gateway.attach(path)
        await namespaces.inside(path, lambda: _address(link))
        return Guest(path, link)

    async def leave(self, guest: Guest) -> None:
        """Take one away."""
        await self._gateway.detach(guest.link)
        namespaces.remove(guest.namespace)


def _address(link: Link) -> None:
    """A plain process has no stack of its own, as a sandbox has."""
    with IPRoute() as route:
        links.configure(route, links.GUEST, link.guest, links.PREFIX)


class Helper:
    """The daemon's helper beside our gateway: which calls live where, and which bundle judges them."""

    def __init__(self, names: Sequence[str], bundle: bytes, key: str) -> None:
        """names: what each call is granted. bundle: an archive, signed for the public key, which is PEM."""
        self._names = tuple(names)
        self._bundle = bundle
        self._key = key
        self._told, self._heard = wire.pair()
        self._told.setblocking(False)
        self._digest = hashlib.sha256(bundle).hexdigest()
        self._reports: dict[str, tuple[socket.socket, socket.socket]] = {}
        self._last = 0
        self.judges = asyncio.Event()

    def command(self, paths: Paths, settings: EgressSettings) -> tuple[list[str], list[int]]:
        """What is run, and the descriptor that it gets besides its connection. The bundle is put where it looks."""
        state, number = pathlib.Path(paths.state), self._heard.fileno()
        (state / "helper").mkdir(exist_ok=True)
        place = archived_path(state, self._digest)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(self._bundle)
        config = Config(paths=paths, egress=msgspec.structs.replace(settings, enabled=True))
        words = (
            CONNECTION,
            str(number),
            msgspec.json.encode(config).decode(),
            msgspec.json.encode([self._key]).decode(),
        )
        return [sys.executable, "-c", _HELPER, *words], [number]

    def grant(self, guest: Guest) -> None:
        """There is a sandbox at the guest's address, and in it a call that may reach the names."""
        number = f"{guest.link.index:020x}"
        call = feed.Call(
            exec_id=f"exec-{number}",
            decision_id=f"dec-{number}",
            call_id=f"call-{number}",
            session_id=f"ses-{number}",
            tool="Bash",
            digest="0" * 64,
            trace_id="0" * 32,
            principal=Principal(name="bench", roles=("developer",)),
            agent="bench",
            profile="default",
            programs=None,
            network=self._names,
            session=SessionInput(id=f"ses-{number}", agent="bench", window=_CALM),
            budget=BudgetInput(usage=Usage().as_budget(), principal=Usage().as_budget()),
        )
        sandbox = f"sb-{number}"
        reports = self._reports[sandbox] = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        watch = feed.Watch(sandbox_id=sandbox, container=sandbox, template="base", address=guest.link.guest)
        socket.send_fds(self._told, [_encode(watch)], [reports[1].fileno()])
        self._told.send(_encode(feed.Expect(sandbox_id=sandbox, call=call)))

    def end(self, guest: Guest) -> None:
        """The sandbox is gone."""
        sandbox = f"sb-{guest.link.index:020x}"
        self._told.send(_encode(feed.Unwatch(sandbox_id=sandbox)))
        for one in self._reports.pop(sandbox):
            one.close()

    async def heard(self) -> None:
        """Wait until all of it is known there."""
        self._last += 1
        self._told.send(_encode(feed.Ping(number=self._last)))
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_START_S):
            while _said(await loop.sock_recv(self._told, feed.MAX_PACKET)) != self._last:
                pass  # findings: of programs there are none

    async def step(self, finished: int) -> protocol.BundleStep:
        """What it is to do: judge by the one bundle, and then nothing."""
        if finished:
            self.judges.set()
            await asyncio.Event().wait()
        return protocol.BundleStep(request=0, number=1, digest=self._digest, swap=True)

    def close(self) -> None:
        """Close what it was told by."""
        for one in (self._told, self._heard, *(end for pair in self._reports.values() for end in pair)):
            one.close()


def _encode(message: feed.Told) -> bytes:
    return msgspec.msgpack.encode(message)


def _said(packet: bytes) -> int:
    said = msgspec.msgpack.decode(packet)
    return int(said.get("number", 0)) if isinstance(said, dict) else 0


class _Warden:
    """What the process beside a gateway asks of the warden (server.Operations)."""

    def __init__(self, way: way_out.WayOut, helper: Helper | None) -> None:
        self._serve: Callable[[Any], Awaitable[protocol.Answer]] = way.answer
        self._way = way
        self._helper = helper

    def passed(self, answer: protocol.Answer) -> tuple[int, ...]:
        return self._way.passed(answer)

    async def answer(self, request: protocol.Request, descriptors: list[int]) -> protocol.Answer:
        del descriptors
        if isinstance(request, protocol.NextStep) and self._helper is not None:
            if request.error:
                raise OpenSafeError("the helper refuses the bundle", value=request.error)
            step = await self._helper.step(request.finished)
            return msgspec.structs.replace(step, request=request.request)
        if isinstance(request, protocol.NextStep):
            await asyncio.Event().wait()
        return await self._serve(request)

    async def ended(self, start: protocol.Start) -> protocol.Ended:
        raise OpenSafeError("the bench's warden starts nothing", value=start.launch.exec_id)


@contextlib.asynccontextmanager
async def side(
    paths: Paths, settings: EgressSettings, instance: str, helper: "Helper | None" = None
) -> AsyncIterator["Side"]:
    """A gateway that serves, until the end of the body: with a helper ours, without one the baseline.

    instance: names what is made on the host, where nothing else may have that name. Raises HostUnsuitable; nothing is
    left.
    """
    layout, own = Layout.of(paths), pwd.getpwnam(settings.user)
    prepare_one(layout.run / "egress", settings.user, 0, "egress.user")
    authz, namespace = layout.run / "egress" / "authz.sock", layout.namespaces / way_out.NAMESPACE
    await gateway.remove(namespace, instance)
    async with contextlib.AsyncExitStack() as stack:
        made = await Gateway.open(namespace, settings, instance, own.pw_uid)
        envoy = (Envoy if helper else UnaskedEnvoy)(layout, own, namespace, authz)
        way = way_out.WayOut(settings, made, envoy, authz)
        stack.push_async_callback(way.close)
        stack.callback(_forget_guests, layout.namespaces)
        await stack.enter_async_context(_recorded(way))
        argv, passed = _sink(settings), list[int]()
        if helper is not None:
            stack.callback(helper.close)
            argv, passed = helper.command(paths, settings)
        child = await stack.enter_async_context(_beside(_Warden(way, helper), argv, passed, layout.run / "log"))
        await stack.enter_async_context(_serving(envoy))
        if helper is not None:
            await _first(helper.judges.wait(), child.wait(), layout.run / "log")
        yield Side(made, layout.namespaces, child.pid)


def _sink(settings: EgressSettings) -> list[str]:
    return [sys.executable, "-m", "opensafe.bench.egress_sink", CONNECTION, *settings.resolvers]


@contextlib.asynccontextmanager
async def _beside(
    warden: _Warden, argv: Sequence[str], passed: Sequence[int], log: pathlib.Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The process beside a gateway, which is served what it asks. Killed at the end."""
    ours, theirs = wire.pair()
    with theirs, log.open("wb") as said:
        words = [str(theirs.fileno()) if one == CONNECTION else one for one in argv]
        child = await asyncio.create_subprocess_exec(*words, pass_fds=(theirs.fileno(), *passed), stderr=said)
    serving = asyncio.create_task(server.Connection(ours, warden, server.HELPER).run())
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()
        await serving


@contextlib.asynccontextmanager
async def _serving(envoy: Envoy) -> AsyncIterator[None]:
    running = asyncio.create_task(envoy.run())
    try:
        await _first(envoy.alive.wait(), asyncio.shield(running))
        yield
    finally:
        await envoy.close()
        await asyncio.gather(running, return_exceptions=True)


async def _first(wanted: Awaitable[object], ended: Awaitable[object], log: pathlib.Path | None = None) -> None:
    """Wait for what is wanted. Raises HostUnsuitable where the other comes first, or the time is up."""
    tasks = [asyncio.ensure_future(wanted), asyncio.ensure_future(ended)]
    try:
        await asyncio.wait(tasks, timeout=_START_S, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            raise HostUnsuitable("a gateway does not begin to serve", value=_last_line(log), limit=f"{_START_S} s")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _last_line(log: pathlib.Path | None) -> str:
    return " ".join(log.read_text(errors="replace").splitlines()[-1:]) if log is not None else ""


@contextlib.asynccontextmanager
async def _recorded(way: way_out.WayOut) -> AsyncIterator[None]:
    """Take what is reported, as the front does; it goes nowhere."""

    async def take() -> None:
        last = 0
        while True:
            last, _ = await way.connections.next(last)

    task = asyncio.create_task(take())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _forget_guests(directory: pathlib.Path) -> None:
    for path in directory.glob(f"{_GUEST}*"):
        namespaces.remove(path)
