"""The way out of sandboxes: the gateway, Envoy in it, and what the egress helper needs of both.

Closed is the state in which all of it starts and into which every failure leads: a sandbox's link ends in a namespace
that forwards nothing, a helper that is gone answers no question, and its tunnels are cut; so are those of a front that
is gone, whose calls end.
"""

import asyncio
import logging
import os
import pathlib
import pwd
import socket
from collections.abc import Callable, Coroutine
from typing import Final, Self

import msgspec

from ..config import EgressSettings
from ..errors import HostUnsuitable, InvalidArgument, OpenSafeError
from ..model.termination import SYSTEM, Credential
from . import credentials, protocol
from .connections import Connections
from .looking import Lookout
from .network import gateway, sockets
from .network.envoy import Envoy
from .network.envoy_config import Proxy
from .network.gateway import Gateway
from .network.links import Link
from .network.ports import Port
from .network.termination import Terminator
from .packets import Origin, Packets
from .sandbox.layout import Layout
from .sandbox.trust import Trust

_log = logging.getLogger(__name__)

NAMESPACE: Final = "gateway"
#: For Envoy to serve the first time.
_START_S: Final = 30.0


class WayOut:
    """Owns the gateway and Envoy; `close` leaves nothing of either."""

    def __init__(
        self,
        settings: EgressSettings,
        own: Gateway,
        envoy: Envoy,
        authz: pathlib.Path,
        origin: Callable[[Link], Origin] = lambda _: Origin(),
        terminator: Terminator | None = None,
        held: tuple[Credential, ...] = (),
    ) -> None:
        self._settings = settings
        self._gateway = own
        self._envoy = envoy
        self._authz = authz
        self.lookout = Lookout()
        self._terminator = terminator
        self._held = held
        self._renewing: asyncio.Task[None] | None = None
        self.trust: Trust | None = None
        if terminator is not None:
            self._renewing = asyncio.create_task(terminator.run(), name="certificates")
            self.trust = Trust(terminator.pem, terminator.variables, SYSTEM)
        self._running: asyncio.Task[None] | None = None
        self._passed = own.take_sockets()
        #: Sockets of Dial that are not passed yet, by request.
        self._made: dict[int, socket.socket] = {}
        self._cutting: set[asyncio.Task[None]] = set()
        self.connections = Connections()
        self._packets = Packets(self.connections.offer, own.link_by, origin, own.take_untold)
        self._telling = asyncio.create_task(self._packets.run(own.refusals()), name="packets")

    @classmethod
    async def open(
        cls,
        layout: Layout,
        settings: EgressSettings,
        instance: str,
        service: pwd.struct_passwd,
        own: pwd.struct_passwd,
        origin: Callable[[Link], Origin],
    ) -> Self:
        """Make both, and return when Envoy serves. service: whom the helper runs as; own: whom Envoy does.

        origin: what is behind a link. Raises HostUnsuitable.
        """
        directory = layout.run / "egress"
        sockets.prepare_one(directory, settings.user, service.pw_uid, "egress.user")
        authz = directory / "authz.sock"
        namespace = layout.namespaces / NAMESPACE
        held = credentials.read(settings.credential)
        proxy = _proxy(settings)
        terminator = Terminator(layout, settings) if settings.terminate else None
        if terminator is not None:
            terminator.open(own.pw_gid)
        made = await Gateway.open(namespace, settings, instance, own.pw_uid)
        told = terminator.told if terminator is not None else None
        envoy = Envoy(layout, own, namespace, authz, termination=told, proxy=proxy)
        opened = cls(settings, made, envoy, authz, origin, terminator, held)
        try:
            await opened._begin()
        except BaseException:
            await opened.close()
            raise
        return opened

    async def _begin(self) -> None:
        self._running = asyncio.create_task(self._envoy.run(), name="envoy")
        serving = asyncio.create_task(self._envoy.alive.wait())
        await asyncio.wait((serving, self._running), timeout=_START_S, return_when=asyncio.FIRST_COMPLETED)
        serving.cancel()
        if self._running.done():  # it can't be started at all
            await self._running
        if not self._envoy.alive.is_set():
            raise HostUnsuitable("Envoy does not serve", limit=f"{_START_S:.0f} s", remedy="Its lines stand above.")

    async def close(self) -> None:
        """Stop Envoy, then take the gateway away."""
        tasks = [self._telling, *self._cutting, *((self._renewing,) if self._renewing is not None else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._held = ()
        await self._envoy.close()
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)
        await self._gateway.close()
        if self._terminator is not None:
            self._terminator.close()

    async def attach(self, namespace: pathlib.Path) -> Link:
        """Give a sandbox's namespace its link. Raises OSError, LimitExceeded."""
        return await self._gateway.attach(namespace)

    async def port(self, namespace: pathlib.Path, link: Link) -> Port:
        """The guest's end of its link, the caller's to close. Raises OSError."""
        return await self._gateway.port(namespace, link)

    async def detach(self, link: Link) -> None:
        """Take a link away, and with it whatever was open on it."""
        await self._gateway.detach(link)

    def cut(self, link: Link | None, then: Callable[[], None]) -> None:
        """End what is open on a link, if it is there still, and call `then`. Nobody waits for it."""
        if link is None:
            then()
        else:
            self._spawn(self._cut(link.guest)).add_done_callback(lambda _: then())

    def ended(self) -> None:
        """The helper is gone: nobody takes what a listed endpoint leads to, nor a socket that was made for it."""
        self.lookout.ended()
        for one in self._made.values():
            one.close()
        self._made.clear()
        self._spawn(self._unlist())

    def cut_all(self) -> None:
        """End what is open on every link."""
        self._spawn(self._cut(None))

    def passed(self, answer: protocol.Answer) -> tuple[int, ...]:
        """The sockets of GatewayOpened and Dialling, the caller's to close."""
        if isinstance(answer, protocol.GatewayOpened):
            return tuple(os.dup(one.fileno()) for one in self._passed)
        if isinstance(answer, protocol.Dialling):
            made = self._made.pop(answer.request, None)
            return (made.detach(),) if made is not None else ()
        return ()

    async def answer(self, request: protocol.OfWayOut) -> protocol.Answer:
        """What the helper and the front ask of it."""
        number = request.request
        match request:
            case protocol.OpenGateway():
                also = self._settings.vetted_also
                return protocol.GatewayOpened(
                    request=number, authz=str(self._authz), networks=also, credentials=self._held
                )
            case protocol.Vet():
                try:
                    await self._gateway.vet(request.addresses, request.seconds)
                except ValueError as error:
                    raise InvalidArgument(f"not to be dialled: {error}", value=request.addresses) from error
            case protocol.ListEndpoints():
                try:
                    await self._gateway.endpoints.set(request.endpoints)
                except ValueError as error:
                    raise InvalidArgument(f"not to be listed: {error}") from error
            case protocol.Dial():
                try:
                    self._made[number] = await self._gateway.endpoints.dial(request.address, request.port)
                except ValueError as error:
                    raise InvalidArgument(f"not to be dialled: {error}", value=request.address) from error
                return protocol.Dialling(request=number)
            case protocol.Cut():
                await self._gateway.cut(request.address, request.port)
            case protocol.Report():
                await self.connections.add(request.connections)
            case protocol.NextConnections():
                last, told = await self.connections.next(request.after)
                return protocol.ConnectionsTold(request=number, number=last, connections=told)
            case protocol.LookOut():
                sight = await self.lookout.ask(request)
                return protocol.Sighted(request=number, sight=sight)
            case protocol.NextLook():
                due = await self.lookout.next(request.looked, request.sight)
                return msgspec.structs.replace(due, request=number)
        return protocol.Done(request=number)

    async def _cut(self, guest: str | None) -> None:
        try:
            count = await (self._gateway.cut_all() if guest is None else self._gateway.cut(guest))
        except (OSError, OpenSafeError) as error:
            _log.error("connections of %s could not be cut: %s", guest or "all sandboxes", error)
            # Envoy holds the other end of every one of them.
            self._envoy.kill()
        else:
            if count:
                _log.info("%d connections of %s were cut", count, guest or "all sandboxes")

    async def _unlist(self) -> None:
        try:
            await self._gateway.endpoints.set(())
        except (OSError, OpenSafeError) as error:
            _log.error("endpoints stay listed, though nobody takes their connections: %s", error)
        await self._cut(None)  # what came in between waits for the next helper

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._cutting.add(task)
        task.add_done_callback(self._cutting.discard)
        return task


def _proxy(settings: EgressSettings) -> Proxy | None:
    """Raises ConfigError."""
    told = settings.proxy
    if told is None:
        return None
    return Proxy(host=told.host, port=told.port, authorization=credentials.read_authorization(told))


async def clear(layout: Layout, instance: str) -> tuple[str, ...]:
    """Remove what an earlier life left of it; what it was."""
    removed = await gateway.remove(layout.namespaces / NAMESPACE, instance)
    for name in ("authz.sock", protocol.LOG_SOCKET):
        (layout.run / "egress" / name).unlink(missing_ok=True)
    return tuple(removed)
