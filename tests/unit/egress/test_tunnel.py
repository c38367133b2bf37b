"""Bytes between two sockets: all of them, in order, no more held than allowed, and each side's end on its own."""

import asyncio
import itertools
import socket
import struct

import pytest

from opensafe.egress.tunnel import BUFFER, Mover, Tunnel

RESET = struct.pack("ii", 1, 0)
WAIT_S = 20


class Ends:
    """A tunnel between two clients. over: it has ended."""

    def __init__(self):
        self.guest, guest = connected()
        self.world, world = connected()
        self.over = asyncio.Event()
        self.mover = Mover()
        self.tunnel = Tunnel(self.mover, guest, world, self.over.set)
        self.inner = (guest, world)

    async def ended(self):
        async with asyncio.timeout(WAIT_S):
            await self.over.wait()

    def close(self):
        self.tunnel.close()
        self.mover.close()
        self.guest.close()
        self.world.close()


def connected():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
    for one in (client, accepted):
        one.setblocking(False)
    return client, accepted


@pytest.fixture
async def ends():
    made = Ends()
    made.tunnel.start()
    yield made
    made.close()


async def send(end, data):
    async with asyncio.timeout(WAIT_S):
        await asyncio.get_running_loop().sock_sendall(end, data)


async def read(end, size=1 << 20):
    """What comes until there are so many bytes or the end."""
    loop, found = asyncio.get_running_loop(), b""
    async with asyncio.timeout(WAIT_S):
        while len(found) < size and (data := await loop.sock_recv(end, size - len(found))):
            found += data
    return found


async def test_either_side_may_speak_first_and_all_of_it_arrives(ends):
    await send(ends.world, b"220 ready\r\n")
    assert await read(ends.guest, 11) == b"220 ready\r\n"
    await send(ends.guest, b"EHLO\r\n")
    assert await read(ends.world, 6) == b"EHLO\r\n"
    assert (ends.tunnel.sent, ends.tunnel.received) == (6, 11)


async def test_one_side_may_end_its_sending_and_hear_the_rest(ends):
    await send(ends.guest, b"question")
    ends.guest.shutdown(socket.SHUT_WR)
    assert await read(ends.world) == b"question"
    assert not ends.over.is_set()
    await send(ends.world, b"answer")
    ends.world.close()
    assert await read(ends.guest) == b"answer"
    await ends.ended()
    assert [one.fileno() for one in ends.inner] == [-1, -1]


async def test_what_nobody_reads_makes_the_sender_wait_and_little_is_held(ends):
    loop, big = asyncio.get_running_loop(), bytes(range(256)) * (1 << 16)  # 16 MiB
    sending = loop.create_task(loop.sock_sendall(ends.guest, big))
    await settled(lambda: ends.tunnel.sent)
    assert not sending.done()
    assert 0 < ends.tunnel.held <= BUFFER
    await send(ends.world, b"meanwhile")
    assert await read(ends.guest, 9) == b"meanwhile"  # the other direction goes on
    assert await read(ends.world, len(big)) == big
    await sending
    assert ends.tunnel.sent == len(big)


async def settled(figure):
    """Wait until it stands still for some turns after it has moved."""
    last, still = -1, 0
    async with asyncio.timeout(WAIT_S):
        while still < 20:
            await asyncio.sleep(0.005)
            now = figure()
            still = still + 1 if now == last and now else 0
            last = now


async def test_RS_16_a_turn_is_bounded_however_many_are_ready_and_all_of_them_get_theirs():
    loop, mover, many, big = asyncio.get_running_loop(), Mover(), 24, bytes(1 << 20)
    pairs = [(*connected(), *connected()) for _ in range(many)]
    tunnels = [Tunnel(mover, guest, world, lambda: None) for _, guest, _, world in pairs]
    for tunnel in tunnels:
        tunnel.start()
    sending = [loop.create_task(loop.sock_sendall(guest, big)) for guest, *_ in pairs]
    reading = [loop.create_task(read(world, len(big))) for _, _, world, _ in pairs]
    totals, before, behind = [], 0, 0
    while before < many * len(big):
        await asyncio.sleep(0)
        before = sum(tunnel.sent for tunnel in tunnels)
        totals.append(before)
        if not behind and before > many * len(big) // 2:
            behind = min(tunnel.sent for tunnel in tunnels)
    assert [len(await one) for one in reading] == [len(big)] * many
    await asyncio.gather(*sending)
    assert max(after - before for before, after in itertools.pairwise(totals)) <= 16 * BUFFER
    assert behind > 0
    for tunnel in tunnels:
        tunnel.close()
    mover.close()
    for guest, _, world, _ in pairs:
        guest.close()
        world.close()


@pytest.mark.parametrize("side", ["guest", "world"])
async def test_a_reset_on_one_side_is_a_reset_on_the_other(ends, side):
    broken, other = (ends.guest, ends.world) if side == "guest" else (ends.world, ends.guest)
    await send(other, b"x")
    assert await read(broken, 1) == b"x"
    broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    broken.close()
    await ends.ended()
    with pytest.raises(ConnectionResetError):
        await read(other)


async def test_a_close_resets_both_at_once_also_with_bytes_under_way(ends):
    loop = asyncio.get_running_loop()
    sending = loop.create_task(loop.sock_sendall(ends.guest, bytes(16 << 20)))
    await settled(lambda: ends.tunnel.sent)
    ends.tunnel.close()
    ends.tunnel.close()
    assert ends.over.is_set()
    with pytest.raises(ConnectionError):
        await sending
    with pytest.raises(ConnectionResetError):
        await read(ends.world, 64 << 20)
