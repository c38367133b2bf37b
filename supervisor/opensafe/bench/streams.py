"""Output streams of real programs, read by a process of its own: a busy reader beside the asker would be measured too.

    python -m opensafe.bench.streams SOCKET SESSION SANDBOX COUNT BYTES_PER_S

Zero bytes per second means as many as will go. Says `ready` once every stream has sent something, and at the end of
standard input how many bytes came since and in how many seconds, as JSON.
"""

import asyncio
import contextlib
import sys
import time
from typing import Any, Final

import msgspec

from opensafe.client import Client, Stdout
from opensafe.model.ids import new_id

#: Ten pieces a second, on a clock of its own, or one after another.
_PACED: Final = (
    "import sys, time\n"
    "at = time.monotonic()\n"
    "while sys.stdout.buffer.write(bytes({size})) and not sys.stdout.flush():\n"
    "    at += 0.1\n"
    "    time.sleep(max(0, at - time.monotonic()))\n"
)
_FULL: Final = "import sys\nwhile sys.stdout.buffer.write(bytes(65536)): pass\n"


class Came(msgspec.Struct, frozen=True):
    """What was read while it was measured."""

    bytes: int
    seconds: float


class _Streams:
    def __init__(self, client: Client, session: str, sandbox: str, pace: int) -> None:
        self._client = client
        self._session = session
        self._sandbox = sandbox
        program = _PACED.format(size=pace // 10) if pace else _FULL
        self._arguments = {"argv": ["/usr/bin/python3", "-I", "-S", "-c", program]}
        self.came = 0

    async def keep(self, flowing: asyncio.Event) -> None:
        """One stream; a call that has used up its output is followed by another."""
        while True:
            call = self._client.call(self._session, self._sandbox, new_id("call"), "Exec", self._arguments)
            async for event in call:
                if isinstance(event, Stdout):
                    self.came += len(event.data)
                    flowing.set()


async def _main(socket: str, session: str, sandbox: str, count: int, pace: int) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    async with Client.connect(socket) as client:
        streams = _Streams(client, session, sandbox, pace)
        flowing = [asyncio.Event() for _ in range(count)]
        tasks = [asyncio.create_task(streams.keep(event)) for event in flowing]
        watch = asyncio.gather(*tasks)
        try:
            await _first(watch, asyncio.gather(*(event.wait() for event in flowing)))
            print("ready", flush=True)  # noqa: T201 - the protocol of this program
            before, begun = streams.came, time.monotonic()
            await _first(watch, asyncio.ensure_future(ended.wait()))
            came = Came(streams.came - before, time.monotonic() - begun)
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
    sys.stdout.buffer.write(msgspec.json.encode(came))


async def _first(watch: "asyncio.Future[list[None]]", awaited: "asyncio.Future[Any]") -> None:
    """Wait for `awaited`; a stream that fails meanwhile raises."""
    await asyncio.wait({watch, awaited}, return_when=asyncio.FIRST_COMPLETED)
    if watch.done():
        awaited.cancel()
        await watch


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
