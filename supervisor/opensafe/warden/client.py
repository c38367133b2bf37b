"""The front's side of protocol.py. Unprivileged: all it has is its end of a socketpair.

A refusal of the warden arrives as the exception that it was there. When the connection ends, everything that
waits fails with Unavailable.
"""

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from .. import errors
from ..model.connection import Connection
from ..model.sandbox import Launch, SandboxSpec, Terminal, User
from ..model.traffic import Sight, What
from . import protocol, wire

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(protocol.Answer)

_Expected = TypeVar("_Expected", bound=msgspec.Struct)


class WardenClient:
    """A connection to the warden; make it in a running event loop and `close` it there."""

    def __init__(self, end: socket.socket) -> None:
        self._channel = wire.Channel(end)
        self._waiting: dict[int, asyncio.Future[protocol.Answer]] = {}
        self._passed: dict[int, tuple[int, ...]] = {}
        #: Ends of programs that were started here, by exec id, until somebody has waited for them.
        self._ends: dict[str, asyncio.Future[protocol.Ended]] = {}
        self._last = 0
        self._ended = False
        self._reader = asyncio.create_task(self._read())

    async def close(self) -> None:
        """End the connection. What still waits fails with Unavailable."""
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        self._channel.close()

    def next_request(self) -> int:
        """A number for the next request."""
        self._last += 1
        return self._last

    async def call(self, request: protocol.Request, fds: Sequence[int] = ()) -> protocol.Answer:
        """Send a request and wait for its answer. The descriptors stay the caller's to close.

        Raises what the warden raised, InvalidArgument for a request larger than a packet, and Unavailable when
        the warden is gone: whether the operation took place is then unknown.
        """
        packet = _encoder.encode(request)
        if len(packet) > protocol.MAX_PACKET:
            raise errors.InvalidArgument(
                "the program's arguments and environment are too large",
                value=f"{len(packet)} bytes",
                limit=f"{protocol.MAX_PACKET} bytes",
                remedy="Pass what is large on standard input or in a file.",
            )
        if self._ended:
            raise _gone()
        answered: asyncio.Future[protocol.Answer] = asyncio.get_running_loop().create_future()
        self._waiting[request.request] = answered
        try:
            try:
                await self._channel.send(packet, fds)
            except wire.ConnectionEndedError as end:
                raise _gone() from end
            answer = await answered
        finally:
            del self._waiting[request.request]
        if isinstance(answer, protocol.Failed):
            raise _error(answer)
        return answer

    async def create_sandbox(
        self, spec: SandboxSpec, decision: protocol.RecordRef, *, require_warm: bool = False
    ) -> protocol.SandboxMade:
        """Make and start a sandbox, or claim one from the pool.

        Raises WardenRefused, SandboxStartFailed, LimitExceeded, Conflict; with require_warm NoWarmSandbox.
        """
        request = protocol.CreateSandbox(
            request=self.next_request(), spec=spec, decision=decision, require_warm=require_warm
        )
        return _expect(await self.call(request), protocol.SandboxMade)

    async def find_image(self, template: str) -> str:
        """The digest of the image that the template's name means now. Raises SandboxStartFailed where there is none."""
        answer = await self.call(protocol.FindImage(request=self.next_request(), template=template))
        return _expect(answer, protocol.ImageFound).digest

    async def find_user(self, user: str, sandbox_id: str = "") -> User | None:
        """A user of the sandbox's image, or without one of the default image, by name or number.

        None for the one that programs have who ask for none. Raises UnknownUser, InvalidArgument,
        NotFound, SandboxStartFailed.
        """
        request = protocol.FindUser(request=self.next_request(), user=user, sandbox_id=sandbox_id or None)
        return _expect(await self.call(request), protocol.UserFound).user

    async def delete_sandbox(self, sandbox_id: str) -> None:
        """End and remove a sandbox. Raises NotFound, SandboxError."""
        await self.call(protocol.DeleteSandbox(request=self.next_request(), sandbox_id=sandbox_id))

    async def pause_sandbox(self, sandbox_id: str) -> None:
        """Stop its guest, if that is not done. Raises NotFound, SandboxLost."""
        await self.call(protocol.PauseSandbox(request=self.next_request(), sandbox_id=sandbox_id))

    async def resume_sandbox(self, sandbox_id: str) -> None:
        """Let its guest go on. Raises NotFound, SandboxLost."""
        await self.call(protocol.ResumeSandbox(request=self.next_request(), sandbox_id=sandbox_id))

    async def list_sandboxes(self) -> tuple[protocol.SandboxState, ...]:
        """All sandboxes by their ids, lost ones included."""
        found: list[protocol.SandboxState] = []
        while True:
            after = found[-1].sandbox_id if found else ""
            page = await self.call(protocol.ListSandboxes(request=self.next_request(), after=after))
            found += _expect(page, protocol.Sandboxes).sandboxes
            if not _expect(page, protocol.Sandboxes).more:
                return tuple(found)

    async def await_lost(self, after: int) -> tuple[protocol.Loss, ...]:
        """Sandboxes that were lost under a number above `after`, at least one."""
        answer = await self.call(protocol.AwaitLost(request=self.next_request(), after=after))
        return _expect(answer, protocol.Lost).losses

    async def start(
        self, launch: Launch, decision: protocol.RecordRef, stdin: int, stdout: int, stderr: int
    ) -> protocol.Started:
        """Start a program on the ends of three pipes; `wait` then tells its end.

        Raises WardenRefused, InvalidArgument, SandboxError, …
        """
        request = protocol.Start(request=self.next_request(), launch=launch, decision=decision)
        return _expect(await self.call(request, (stdin, stdout, stderr)), protocol.Started)

    async def wait(self, exec_id: str) -> protocol.Ended:
        """How a program that was started here ended, once it and everything below it is gone. One may ask, once.

        Raises NotFound, Unavailable.
        """
        if exec_id not in self._ends:
            raise errors.NotFound("no such program was started here", value=exec_id)
        try:
            return await self._ends[exec_id]
        finally:
            del self._ends[exec_id]

    async def kill(self, exec_id: str) -> None:
        """Kill a program's whole tree; returns when it is empty. Raises NotFound."""
        await self.call(protocol.Kill(request=self.next_request(), exec_id=exec_id))

    async def signal(self, exec_id: str, number: int, *, whole_tree: bool) -> None:
        """Signal a program, or every process of its call. Raises NotFound, InvalidArgument, Unavailable."""
        request = protocol.Signal(request=self.next_request(), exec_id=exec_id, signal=number, whole_tree=whole_tree)
        await self.call(request)

    async def resize(self, exec_id: str, terminal: Terminal) -> None:
        """Give a program's terminal another size. Raises NotFound, InvalidArgument where it has none."""
        await self.call(protocol.Resize(request=self.next_request(), exec_id=exec_id, terminal=terminal))

    async def status(self) -> protocol.StatusReport:
        """What the warden knows of itself."""
        return _expect(await self.call(protocol.Status(request=self.next_request())), protocol.StatusReport)

    async def await_bundle(self, after: int) -> protocol.Offer:
        """The newest bundle put in place, when its offer's number is above `after`."""
        request = protocol.AwaitBundle(request=self.next_request(), after=after)
        return _expect(await self.call(request), protocol.BundleOffered).offer

    async def next_breach(self, after: int) -> protocol.BreachFound:
        """The oldest breach of the monitor's rules with a number above `after`; those up to it are on record."""
        request = protocol.NextBreach(request=self.next_request(), after=after)
        return _expect(await self.call(request), protocol.BreachFound)

    async def open_gateway(self) -> tuple[protocol.GatewayOpened, tuple[socket.socket, ...]]:
        """The gateway's sockets, the caller's to close: guests' DNS by UDP and TCP, Envoy's DNS, listed endpoints'.

        Raises NotFound where there is no way out, Unavailable.
        """
        request = protocol.OpenGateway(request=self.next_request())
        opened = _expect(await self.call(request), protocol.GatewayOpened)
        passed = self._passed.pop(request.request, ())
        if len(passed) != wire.MAX_DESCRIPTORS:
            wire.close_all(passed)
            raise errors.Unavailable("the warden passed no sockets, or there was no room for them")
        return opened, tuple(socket.socket(fileno=one) for one in passed)

    async def vet(self, addresses: Sequence[str], seconds: int) -> None:
        """Let Envoy dial these addresses for so long. Raises InvalidArgument where one is not global."""
        await self.call(protocol.Vet(request=self.next_request(), addresses=tuple(addresses), seconds=seconds))

    async def list_endpoints(self, endpoints: Sequence[tuple[str, int]]) -> None:
        """Have these pairs of synthetic address and port lead here, and no others. Raises InvalidArgument."""
        await self.call(protocol.ListEndpoints(request=self.next_request(), endpoints=tuple(endpoints)))

    async def dial(self, address: str, port: int) -> socket.socket:
        """A socket, the caller's to close, that can be connected to this. Raises InvalidArgument, Unavailable."""
        request = protocol.Dial(request=self.next_request(), address=address, port=port)
        try:
            _expect(await self.call(request), protocol.Dialling)
        except BaseException:  # cancelled, for one, after the answer had come
            wire.close_all(self._passed.pop(request.request, ()))
            raise
        passed = self._passed.pop(request.request, ())
        if len(passed) != 1:
            wire.close_all(passed)
            raise errors.Unavailable("the warden passed no socket, or there was no room for one")
        return socket.socket(fileno=passed[0])

    async def cut(self, address: str, port: int | None = None) -> None:
        """End the connections that a sandbox's address has to the gateway, or the one from this port."""
        await self.call(protocol.Cut(request=self.next_request(), address=address, port=port))

    async def report(self, connections: Sequence[Connection]) -> None:
        """Have connections put on record. Raises LimitExceeded: the front is behind, say it later."""
        await self.call(protocol.Report(request=self.next_request(), connections=tuple(connections)))

    async def next_connections(self, after: int) -> protocol.ConnectionsTold:
        """What the helper reported with a number above `after`; those up to it are on record."""
        request = protocol.NextConnections(request=self.next_request(), after=after)
        return _expect(await self.call(request), protocol.ConnectionsTold)

    async def look_out(
        self, what: What, sandbox_ids: Sequence[str], *, host: str = "", port: int | None = None
    ) -> Sight:
        """What the helper sees of the first of these sandboxes, at most 64. host, port: of a standing.

        Raises NotFound where sandboxes have no way out, Unavailable where there is no helper.
        """
        request = protocol.LookOut(
            request=self.next_request(), what=what, sandbox_ids=tuple(sandbox_ids), host=host, port=port
        )
        return _expect(await self.call(request), protocol.Sighted).sight

    async def next_look(self, looked: int, sight: Sight | None) -> protocol.LookDue:
        """What is to be looked at, after what was seen under the number `looked` (0: nothing yet)."""
        request = protocol.NextLook(request=self.next_request(), looked=looked, sight=sight)
        return _expect(await self.call(request), protocol.LookDue)

    async def ask_helper(self, digest: str, *, swap: bool) -> None:
        """Let the helper prepare a bundle, or serve by it. Raises BundleRefused, Unavailable."""
        await self.call(protocol.AskHelper(request=self.next_request(), digest=digest, swap=swap))

    async def next_step(self, finished: int, error: str) -> protocol.BundleStep:
        """The helper's next step, after the one it has finished."""
        request = protocol.NextStep(request=self.next_request(), finished=finished, error=error[:4096])
        return _expect(await self.call(request), protocol.BundleStep)

    async def next_segment(self) -> tuple[int, int]:
        """Begin another segment of the audit log: its number and a descriptor, the caller's to close.

        Raises AuditError, LimitExceeded, Unavailable.
        """
        request = protocol.NextSegment(request=self.next_request())
        number = _expect(await self.call(request), protocol.SegmentBegun).number
        passed = self._passed.pop(request.request, ())
        if len(passed) != 1:
            wire.close_all(passed)
            raise errors.Unavailable("the warden passed no descriptor, or there was no room for one", value=number)
        return number, passed[0]

    async def serving(self) -> str:
        """Say that the front serves; why nothing starts at the moment, or ""."""
        request = protocol.Serving(request=self.next_request())
        return _expect(await self.call(request), protocol.Heard).blocked

    async def _read(self) -> None:
        try:
            while True:
                packet = await self._channel.receive()
                try:
                    answer = _decoder.decode(packet.data)
                    if isinstance(answer, protocol.Ended) and answer.exec_id in self._ends:
                        self._ends[answer.exec_id].set_result(answer)
                    answered = self._waiting.get(answer.request)
                    if answered is not None and not answered.done():
                        if isinstance(answer, protocol.PASSING):
                            self._passed[answer.request] = packet.take()
                        if isinstance(answer, protocol.Started):
                            # Now: the end may follow before whoever waits for this gets to run.
                            self._ends[answer.exec_id] = asyncio.get_running_loop().create_future()
                        answered.set_result(answer)
                finally:
                    packet.close()
        except (wire.ConnectionEndedError, msgspec.DecodeError):
            # Nobody awaits this task: the waiting ones are told below.
            return
        finally:
            wire.close_all([one for passed in self._passed.values() for one in passed])
            self._ended = True
            unanswered: tuple[asyncio.Future[Any], ...] = (*self._waiting.values(), *self._ends.values())
            for one in unanswered:
                if not one.done():
                    one.set_exception(_gone())


def _expect(answer: protocol.Answer, kind: type[_Expected]) -> _Expected:
    if not isinstance(answer, kind):
        raise errors.Unavailable(f"the warden answered {type(answer).__name__} where {kind.__name__} was due")
    return answer


def _gone() -> errors.Unavailable:
    return errors.Unavailable("the warden is gone", remedy="Repeat with the same call_id.")


def _classes(base: type[errors.OpenSafeError]) -> dict[str, type[errors.OpenSafeError]]:
    found = {base.reason: base} if "reason" in vars(base) else {}  # a door's own kinds have none on the wire
    for sub in base.__subclasses__():
        found.update(_classes(sub))
    return found


_BY_REASON = _classes(errors.OpenSafeError)


def _error(failed: protocol.Failed) -> errors.OpenSafeError:
    kind = _BY_REASON.get(failed.reason, errors.OpenSafeError)
    return kind(failed.message, value=failed.value, limit=failed.limit, remedy=failed.remedy)
