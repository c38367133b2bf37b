"""The sentry's control socket, spoken directly: 1 ms for an exec where the command line needs 15.

The protocol (gVisor pkg/urpc) is private to the pinned runsc: one JSON object `{"method", "arg"}` with file
descriptors by SCM_RIGHTS, answered by one `{"success", "err", "result"}`, neither followed by a newline. A
connection serves one call at a time, so each running program has its own.

The sentry is what a guest that broke out would own. Its answers are therefore hostile: capped, typed, and each
waited for only so long.
"""

import asyncio
import base64
import contextlib
import socket
import weakref
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, TypeVar

import msgspec

from ...errors import DriverError
from ..network.links import GUEST, PREFIX
from ..network.ports import Port
from .driver import Execution, GuestProcess, GuestProgram, targets
from .layout import Layout

#: An answer is a number or a short error, but for the process list: 32768 entries of some 200 bytes.
_ANSWER_MAX: Final = 64 * 1024
_PROCESSES_MAX: Final = 8 << 20
_CHUNK: Final = 256 * 1024
#: Reads for one answer; bounds the work that a sentry can cause by answering one byte at a time.
_READS_MAX: Final = 4096
_DEADLINE_S: Final = 10.0
#: Half of the sentry's listen backlog, beyond which connecting fails.
_CONNECTING_MAX: Final = 8
_ERROR_MAX: Final = 500
#: Signal delivery mode: to one process, named by its id.
_ONE_PROCESS: Final = 0

_LOOPBACK: Final = {
    "LoopbackLinks": [
        {
            "Name": "lo",
            "Addresses": [{"Address": "127.0.0.1", "PrefixLen": 8}, {"Address": "::1", "PrefixLen": 128}],
            "Routes": [
                {"Destination": {"IP": "127.0.0.0", "Mask": base64.b64encode(b"\xff\0\0\0").decode()}},
                {"Destination": {"IP": "::1", "Mask": base64.b64encode(b"\xff" * 16).decode()}},
            ],
        }
    ]
}

#: config.QueueingDiscipline of the pinned runsc.
_FIFO: Final = 1

_Result = TypeVar("_Result")


def _link(port: Port) -> dict[str, Any]:
    """What `runsc start` would make of the interface (boot.CreateLinksAndRoutesArgs)."""
    link = port.link
    peer = {"Destination": {"IP": link.gateway, "Mask": base64.b64encode(b"\xff\xff\xff\xfe").decode()}}
    everywhere = {"Destination": {"IP": "0.0.0.0", "Mask": base64.b64encode(bytes(4)).decode()}}  # noqa: S104 - a route
    return {
        "FDBasedLinks": [
            {
                "Name": GUEST,
                "InterfaceIndex": port.index,
                "MTU": port.mtu,
                "Addresses": [{"Address": link.guest, "PrefixLen": PREFIX}],
                "Routes": [peer],
                "GSOMaxSize": port.gso,
                "RXChecksumOffload": True,
                "LinkAddress": base64.b64encode(port.mac).decode(),
                "QDisc": _FIFO,
                "NumChannels": 1,
                "ProcessorsPerChannel": 0,
            }
        ],
        "Defaultv4Gateway": {"Route": {**everywhere, "Gateway": link.gateway}, "Name": GUEST},
    }


class _Answer(msgspec.Struct):
    success: bool = False
    err: str = ""
    result: msgspec.Raw = msgspec.Raw(b"null")


class _Process(msgspec.Struct):
    pid: int
    ppid: int
    cmd: str = ""


class _Status(msgspec.Struct):
    dropped: int = msgspec.field(name="DroppedCount")


class _Sink(msgspec.Struct):
    status: _Status


class _Session(msgspec.Struct):
    sinks: list[_Sink] | None = None


class Connection:
    """One connection to a sentry; calls on it are made one after the other by one task."""

    def __init__(self, stream: socket.socket, deadline_s: float) -> None:
        self._stream = stream
        self._deadline_s = deadline_s

    @classmethod
    def open(cls, layout: Layout, sandbox_id: str, deadline_s: float = _DEADLINE_S) -> "Connection":
        """Raises DriverError when nobody listens there, or too many wait already to be heard."""
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            stream.setblocking(False)
            # Never pending: a unix socket connects at once or, with its backlog full, fails with EAGAIN.
            stream.connect(str(layout.control_socket(sandbox_id)))
        except OSError as error:
            stream.close()
            raise DriverError(f"sandbox {sandbox_id} does not listen on its control socket: {error}") from error
        return cls(stream, deadline_s)

    async def call(
        self,
        method: str,
        arg: object,
        result: type[_Result],
        *,
        descriptors: Sequence[int] = (),
        answer_max: int = _ANSWER_MAX,
    ) -> _Result:
        """Make one call. Raises DriverError: refused, malformed, too large, late, or the sentry is gone."""
        request = msgspec.json.encode({"method": method, "arg": arg})
        try:
            async with asyncio.timeout(self._deadline_s):
                await self._send(method, request, descriptors)
                return await self.answer(method, result, answer_max=answer_max)
        except TimeoutError as error:
            raise DriverError(f"{method}: no answer from the sentry", limit=f"{self._deadline_s} s") from error

    def ask(self, method: str, arg: object) -> None:
        """Send a short request on an idle connection. Whether somebody has read it shows with its `answer`."""
        with contextlib.suppress(OSError):
            self._stream.send(msgspec.json.encode({"method": method, "arg": arg}))

    async def answer(self, method: str, result: type[_Result], *, answer_max: int = _ANSWER_MAX) -> _Result:
        """The answer to what was sent, whenever it comes. Raises DriverError as `call`."""
        try:
            answer = await self._receive(method, answer_max)
        except OSError as error:
            raise DriverError(f"{method}: the sentry is gone ({error.strerror})") from error
        if not answer.success:
            raise DriverError(f"{method}: refused by the sentry", value=answer.err[:_ERROR_MAX])
        try:
            return msgspec.json.decode(answer.result, type=result)
        except (msgspec.DecodeError, RecursionError) as error:
            raise DriverError(f"{method}: the sentry's result is malformed ({error})") from error

    def close(self) -> None:
        """A call under way is given up; what it asked for may still happen."""
        self._stream.close()

    async def _send(self, method: str, request: bytes, descriptors: Sequence[int]) -> None:
        try:
            # The descriptors go with the first byte. The socket is fresh or idle, so that byte never blocks.
            sent = socket.send_fds(self._stream, [request], list(descriptors)) if descriptors else 0
            if sent < len(request):
                await asyncio.get_running_loop().sock_sendall(self._stream, memoryview(request)[sent:])
        except OSError as error:
            raise DriverError(f"{method}: the sentry is gone ({error.strerror})") from error

    async def _receive(self, method: str, answer_max: int) -> _Answer:
        loop = asyncio.get_running_loop()
        received = bytearray()
        for _ in range(_READS_MAX):
            chunk = await loop.sock_recv(self._stream, min(_CHUNK, answer_max + 1))
            if not chunk:
                raise DriverError(f"{method}: the sentry closed the connection")
            received += chunk
            if len(received) > answer_max:
                raise DriverError(f"{method}: the sentry's answer is too large", limit=f"{answer_max} bytes")
            if chunk.endswith(b"}"):
                try:
                    return msgspec.json.decode(received, type=_Answer)
                except (msgspec.ValidationError, RecursionError) as error:
                    raise DriverError(f"{method}: the sentry's answer is malformed ({error})") from error
                except msgspec.DecodeError:
                    # Not at its end yet.
                    continue
        raise DriverError(f"{method}: the sentry's answer does not end", limit=f"{_READS_MAX} reads")


class ControlExecution:
    """A program started over a connection that is its own.

    The wait is asked for at once, whether anybody awaits it or not: a connection on which nothing is asked keeps a
    thread of the sentry in a blocking read, and with it, until Go's monitor steps in some milliseconds later, one of
    the few processors that the sentry runs tasks on. Measured: 5 to 8 ms of a program's start.
    """

    def __init__(self, connection: Connection, sandbox_id: str, pid: int) -> None:
        self._connection = connection
        self.pid = pid
        connection.ask("containerManager.WaitPID", {"PID": pid, "CID": sandbox_id})

    async def wait(self) -> None:
        """See Execution."""
        # The answer is the runner's own exit status, which means nothing here.
        await self._connection.answer("containerManager.WaitPID", int)

    async def close(self) -> None:
        """See Execution."""
        self._connection.close()


class ControlDriver:
    """The driver in use. See Driver for the methods."""

    def __init__(self, layout: Layout, deadline_s: float = _DEADLINE_S) -> None:
        self._layout = layout
        self._deadline_s = deadline_s
        #: By sandbox, for as long as somebody holds or awaits one: a slow sentry delays its own sandbox alone.
        self._turns: weakref.WeakValueDictionary[str, asyncio.Semaphore] = weakref.WeakValueDictionary()

    async def start(self, sandbox_id: str, port: Port | None = None) -> None:
        """See Driver. Network arguments count only before the start; afterwards they are ignored in silence."""
        network = _LOOPBACK if port is None else _LOOPBACK | _link(port)
        frames = () if port is None else (port.frames.fileno(),)
        async with self._connection(sandbox_id) as connection:
            await connection.call("containerManager.SetNetworkArgs", network, Any, descriptors=frames)
            await connection.call("containerManager.StartRoot", sandbox_id, Any)

    async def execute(self, sandbox_id: str, program: GuestProgram) -> Execution:
        """See Driver."""
        guest, host = list(program.descriptors), list(program.descriptors.values())
        arg = {
            "filename": program.argv[0],
            "argv": program.argv,
            "envv": program.env,
            "wd": program.cwd,
            "KUID": 0,
            "KGID": 0,
            "Capabilities": _capabilities(program.capabilities),
            "ContainerID": sandbox_id,
            "GuestFDs": guest,
        }
        async with self._turn(sandbox_id):
            connection = Connection.open(self._layout, sandbox_id, self._deadline_s)
            try:
                pid = await connection.call("containerManager.ExecuteAsync", arg, int, descriptors=host)
            except BaseException:
                connection.close()
                raise
        return ControlExecution(connection, sandbox_id, pid)

    async def processes(self, sandbox_id: str) -> tuple[GuestProcess, ...]:
        """See Driver."""
        async with self._connection(sandbox_id) as connection:
            return await _processes(connection, sandbox_id)

    async def pause(self, sandbox_id: str) -> None:
        """See Driver."""
        async with self._connection(sandbox_id) as connection:
            await connection.call("containerManager.Pause", None, Any)

    async def resume(self, sandbox_id: str) -> None:
        """See Driver."""
        async with self._connection(sandbox_id) as connection:
            await connection.call("containerManager.Resume", None, Any)

    async def signal(self, sandbox_id: str, runner: int, number: int, *, whole_tree: bool) -> int:
        """See Driver. No task runs between the listing and the last signal, so nothing escapes."""
        async with self._connection(sandbox_id) as connection:
            await connection.call("containerManager.Pause", None, Any)
            try:
                found = targets(await _processes(connection, sandbox_id), runner, whole_tree=whole_tree)
                for pid in found:
                    await _signal(connection, sandbox_id, pid, number)
            finally:
                await connection.call("containerManager.Resume", None, Any)
        return len(found)

    async def lost_reports(self, sandbox_id: str) -> int | None:
        """How many of the monitor's reports the sentry has dropped; None where its session reports to nobody."""
        async with self._connection(sandbox_id) as connection:
            # Without any session the answer is null.
            listed = await connection.call("containerManager.ListTraceSessions", None, msgspec.Raw)
        try:
            sessions = msgspec.json.decode(listed, type=list[_Session] | None)
        except msgspec.DecodeError as error:
            raise DriverError(f"the sentry's report sessions are malformed ({error})") from error
        sinks = [sink for session in sessions or () for sink in session.sinks or ()]
        return sum(sink.status.dropped for sink in sinks) if sinks else None

    @contextlib.asynccontextmanager
    async def _connection(self, sandbox_id: str) -> AsyncIterator[Connection]:
        async with self._turn(sandbox_id):
            connection = Connection.open(self._layout, sandbox_id, self._deadline_s)
            try:
                yield connection
            finally:
                connection.close()

    def _turn(self, sandbox_id: str) -> asyncio.Semaphore:
        """Held from connecting to the first answer, which shows that the connection was accepted."""
        turn = self._turns.get(sandbox_id)
        if turn is None:
            turn = self._turns[sandbox_id] = asyncio.Semaphore(_CONNECTING_MAX)
        return turn


async def _processes(connection: Connection, sandbox_id: str) -> tuple[GuestProcess, ...]:
    listed = await connection.call("containerManager.Processes", sandbox_id, list[_Process], answer_max=_PROCESSES_MAX)
    return tuple(GuestProcess(process.pid, process.ppid, process.cmd) for process in listed)


async def _signal(connection: Connection, sandbox_id: str, pid: int, number: int) -> None:
    arg = {"CID": sandbox_id, "Signo": number, "PID": pid, "Mode": _ONE_PROCESS}
    try:
        await connection.call("containerManager.Signal", arg, Any)
    except DriverError as error:
        # A zombie, or reaped since it was listed.
        if "no such process" not in error.value:
            raise


#: Bit numbers of linux/capability.h for those that a runner may be given.
_CAPABILITY_BIT: Final = {"CAP_SETGID": 6, "CAP_SETUID": 7, "CAP_SETPCAP": 8}


def _capabilities(names: Sequence[str]) -> dict[str, int]:
    mask = sum(1 << _CAPABILITY_BIT[name] for name in names)
    return {
        "PermittedCaps": mask,
        "InheritableCaps": 0,
        "EffectiveCaps": mask,
        "BoundingCaps": mask,
        "AmbientCaps": 0,
    }
