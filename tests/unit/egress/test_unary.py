"""The server of checks: what a gRPC client sees of it, and what a peer can't do that is none.

The general way is seen by a real client; what no client does is written byte by byte (RFC 9113).
"""

import asyncio
import contextlib
import socket
import struct

import grpc
import pytest

from opensafe.egress import unary

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4
WAIT_S = 20


class Asked:
    """Answers what it is asked, twice; `messages` are those that it was asked."""

    def __init__(self):
        self.messages = []
        self.broken = False

    def __call__(self, message, waited):
        assert 0 <= waited < WAIT_S
        self.messages.append(message)
        if self.broken:
            raise RuntimeError("a fault")
        return message * 2


@pytest.fixture
def asked():
    return Asked()


@pytest.fixture
async def path(asked, tmp_path):
    made = unary.Server(tmp_path / "one.sock", asked)
    await made.start(0o660)
    yield tmp_path / "one.sock"
    made.stop()
    assert not (tmp_path / "one.sock").exists()


@contextlib.asynccontextmanager
async def client(path):
    async with grpc.aio.insecure_channel(f"unix:{path}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        yield channel.unary_unary("/any.Service/Method")


@contextlib.asynccontextmanager
async def raw(path):
    reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        writer.write(PREFACE + frame(SETTINGS, 0, 0))
        yield Raw(reader, writer)
    finally:
        writer.close()


class Raw:
    def __init__(self, reader, writer):
        self._reader = reader
        self.write = writer.write

    async def frames(self):
        """Kind, flags, stream and payload of each frame, as they come."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionResetError):
            while head := await asyncio.wait_for(self._reader.readexactly(9), WAIT_S):
                size = int.from_bytes(head[:3], "big")
                yield head[3], head[4], int.from_bytes(head[5:], "big"), await self._reader.readexactly(size)

    async def until(self, kind, stream=0):
        """The payload of the next one of that kind; None: the connection is ended."""
        async for found, _, of, payload in self.frames():
            if (found, of) == (kind, stream):
                return payload
        return None


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def message(data):
    return struct.pack("!BI", 0, len(data)) + data


def request(stream, data=b"x"):
    return frame(HEADERS, END_HEADERS, stream) + frame(DATA, END_STREAM, stream, message(data))


async def test_a_client_is_answered_one_after_the_other_and_many_at_once(path, asked):
    async with client(path) as call:
        assert await call(b"a", timeout=WAIT_S) == b"aa"
        assert await call(b"", timeout=WAIT_S) == b""
        each = [f"{number}".encode() for number in range(500)]
        assert await asyncio.gather(*(call(one, timeout=WAIT_S) for one in each)) == [one * 2 for one in each]
    assert sorted(asked.messages) == sorted([b"a", b"", *each])


async def test_a_message_of_many_frames_and_windows_passes(path):
    large = bytes(range(256)) * 1024
    async with client(path) as call:
        for _ in range(100):  # more than all windows together
            assert await call(large, timeout=WAIT_S) == large * 2


async def test_a_fault_ends_the_connection_and_the_next_one_is_served(path, asked):
    asked.broken = True
    async with client(path) as call:
        with pytest.raises(grpc.aio.AioRpcError):
            await call(b"a", timeout=WAIT_S)
        asked.broken = False
        assert await call(b"a", timeout=WAIT_S, wait_for_ready=True) == b"aa"


async def test_what_is_given_up_before_it_is_read_is_not_asked(path, asked):
    async with raw(path) as peer:
        peer.write(request(1, b"given up") + frame(RESET, 0, 1, bytes(4)) + request(3, b"wanted"))
        assert await peer.until(DATA, 3) == message(b"wanted" * 2)
    assert asked.messages == [b"wanted"]


async def test_headers_may_come_in_pieces_and_a_ping_is_answered(path):
    async with raw(path) as peer:
        peer.write(frame(HEADERS, 0, 1, b"a") + frame(CONTINUATION, END_HEADERS, 1, b"b"))
        peer.write(frame(DATA, END_STREAM, 1, message(b"x")) + frame(PING, 0, 0, b"12345678"))
        assert await peer.until(DATA, 1) == message(b"xx")
    async with raw(path) as peer:
        peer.write(frame(PING, 0, 0, b"12345678"))
        assert await peer.until(PING) == b"12345678"


async def test_an_answer_waits_for_a_window_and_passes_when_there_is_one(path):
    async with raw(path) as peer:
        peer.write(frame(SETTINGS, 0, 0, struct.pack("!HI", 4, 1 << 20)))
        half = bytes(40_000)  # twice that is more than a connection takes at first
        peer.write(frame(HEADERS, END_HEADERS, 1))
        whole = message(half)
        peer.write(b"".join(frame(DATA, 0, 1, whole[at : at + 16384]) for at in range(0, len(whole), 16384)))
        peer.write(frame(DATA, END_STREAM, 1))
        seen = []
        for _ in range(2):  # the second is read after what comes of the request
            peer.write(frame(PING, 0, 0, bytes(8)))
            seen += [(kind, stream) async for kind, _, stream, _ in until_ping(peer)]
        assert (DATA, 1) not in seen
        peer.write(request(3) + frame(WINDOW, 0, 0, (len(message(half * 2)) - 65535).to_bytes(4, "big")))
        got = b""
        async for kind, flags, stream, payload in peer.frames():
            if stream == 1 and kind == DATA:
                got += payload
            if stream == 1 and flags & END_STREAM:
                break
        assert got == message(half * 2)
        peer.write(frame(PING, 0, 0, bytes(8)))
        assert (DATA, 3) not in [(kind, stream) async for kind, _, stream, _ in until_ping(peer)]
        peer.write(frame(WINDOW, 0, 0, (7).to_bytes(4, "big")))
        assert await peer.until(DATA, 3) == message(b"xx")


async def until_ping(peer):
    async for found in peer.frames():
        yield found
        if found[0] == PING:
            return


BROKEN = {
    "no preface": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "large frame": frame(HEADERS, END_HEADERS, 1, bytes(16385)),
    "even stream": request(2),
    "stream again": request(1) + request(1),
    "data without headers": frame(DATA, END_STREAM, 1, message(b"x")),
    "data of no stream": frame(DATA, 0, 0, b"x"),
    "interrupted headers": frame(HEADERS, 0, 1) + frame(PING, 0, 0, bytes(8)),
    "continued nothing": frame(CONTINUATION, END_HEADERS, 1),
    "no message": frame(HEADERS, END_HEADERS | END_STREAM, 1),
    "half a message": frame(HEADERS, END_HEADERS, 1) + frame(DATA, END_STREAM, 1, message(b"xx")[:-1]),
    "two messages": frame(HEADERS, END_HEADERS, 1) + frame(DATA, END_STREAM, 1, message(b"x") * 2),
    "compressed": frame(HEADERS, END_HEADERS, 1) + frame(DATA, END_STREAM, 1, struct.pack("!BI", 1, 1) + b"x"),
    "all padding": frame(HEADERS, END_HEADERS, 1) + frame(DATA, 8, 1, b"\x05x"),
    "endless window": frame(WINDOW, 0, 0, b"\x7f\xff\xff\xff") * 2,
    "push": frame(5, END_HEADERS, 1),
    "half a setting": frame(SETTINGS, 0, 0, b"123"),
    "long request": frame(HEADERS, END_HEADERS, 1) + frame(DATA, 0, 1, bytes(16384)) * 65,
    "pings whose answers nobody takes": frame(PING, 0, 0, bytes(8)) * 1_000_000,
}


@pytest.mark.parametrize("sent", BROKEN.values(), ids=BROKEN)
async def test_what_is_not_to_the_letter_ends_the_connection_and_no_other(path, asked, sent):
    async with client(path) as call, raw(path) as peer:
        assert await call(b"a", timeout=WAIT_S) == b"aa"
        before = len(asked.messages)
        await asyncio.wait_for(ended(path, (b"" if sent.startswith(b"GET") else PREFACE) + sent), WAIT_S)
        assert len(asked.messages) - before <= 1, "the first of two requests, at most"
        assert await call(b"b", timeout=WAIT_S) == b"bb"
        peer.write(request(1))
        assert await peer.until(DATA, 1) == message(b"xx")


async def ended(path, sent):
    """Return when the server has ended a connection on which this was sent, and nothing read before that."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as peer, contextlib.suppress(ConnectionError):
        peer.setblocking(False)
        await loop.sock_connect(peer, str(path))
        await loop.sock_sendall(peer, sent)
        while await loop.sock_recv(peer, 65536):
            pass


async def test_more_requests_at_once_than_are_taken_are_refused_each(path):
    async with raw(path) as peer:
        peer.write(b"".join(frame(HEADERS, END_HEADERS, 2 * number + 1) for number in range(1025)))
        assert await peer.until(RESET, 2049) == (7).to_bytes(4, "big")
        peer.write(frame(DATA, END_STREAM, 1, message(b"x")))
        assert await peer.until(DATA, 1) == message(b"xx")
