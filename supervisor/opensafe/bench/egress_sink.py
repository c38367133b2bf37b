"""What stands beside the Envoy that asks nobody, in the bench of the way out: its resolver, and a reader of its log.

    python -m opensafe.bench.egress_sink CONNECTION RESOLVER

It does what the helper does but for the verdict: names are vetted alike, the log is read and thrown away.
"""

import asyncio
import contextlib
import os
import pathlib
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc

from opensafe._proto.envoy import als_pb2, als_pb2_grpc
from opensafe.egress import upstream
from opensafe.egress.resolver import Resolver
from opensafe.warden.client import WardenClient
from opensafe.warden.protocol import LOG_SOCKET


class _Sink(als_pb2_grpc.AccessLogServiceServicer):
    async def StreamAccessLogs(  # noqa: N802 - Envoy's name
        self,
        messages: AsyncIterator[als_pb2.StreamAccessLogsMessage],
        context: grpc.aio.ServicerContext[Any, Any],  # noqa: ARG002 - gRPC passes it
    ) -> als_pb2.StreamAccessLogsResponse:
        async for _ in messages:
            pass
        return als_pb2.StreamAccessLogsResponse()


async def _run(connection: int, asked: str) -> None:
    warden = WardenClient(socket.socket(fileno=connection))
    opened, passed = await warden.open_gateway()
    guests_udp, guests_tcp, own, *others = passed
    with contextlib.ExitStack() as stack:
        for unserved in (guests_udp, guests_tcp, *others):
            stack.enter_context(unserved)
        server = grpc.aio.server()
        als_pb2_grpc.add_AccessLogServiceServicer_to_server(_Sink(), server)
        os.umask(0)  # in a directory that Envoy's group alone gets into
        server.add_insecure_port(f"unix:{pathlib.PurePath(opened.authz).with_name(LOG_SOCKET)}")
        await server.start()
        resolver = Resolver(own, warden.vet, upstream.servers((asked,)), lambda _: True, fit=lambda _: True)
        async with asyncio.TaskGroup() as group:
            group.create_task(resolver.run())
            group.create_task(warden.next_step(0, ""))  # there is none: it ends with the other end


def main(arguments: list[str]) -> None:
    """Serve until killed, or until the other end is gone."""
    connection, asked = arguments
    asyncio.run(_run(int(connection), asked))


if __name__ == "__main__":
    main(sys.argv[1:])
