"""A real Jaeger for tests: collector and query API on loopback, traces in memory, gone with the test."""

import contextlib
import os
import pathlib
import socket
import subprocess
import threading
from dataclasses import dataclass

from opensafe.proof.private import PREFIX

PROGRAM = PREFIX / "bin/jaeger"
#: All that it listens on; it must not take the ports of one that runs on this host.
_FLAGS = (
    "admin.http.host-port",
    "collector.grpc-server.host-port",
    "collector.http-server.host-port",
    "collector.otlp.grpc.host-port",
    "collector.otlp.http.host-port",
    "query.grpc-server.host-port",
    "query.http-server.host-port",
)
#: Somebody may take a port between our look and its start.
_TRIES = 5


@dataclass(frozen=True)
class Jaeger:
    """otlp: where spans go to (gRPC). query: where traces come from."""

    otlp: str
    query: str


def _free_addresses():
    """As many addresses as there are flags, free a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in _FLAGS]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return {flag: f"127.0.0.1:{one.getsockname()[1]}" for flag, one in zip(_FLAGS, sockets, strict=True)}


def _start(addresses):
    """The process once it says that it serves; None where it ended instead."""
    process = subprocess.Popen(
        [PROGRAM, *(f"--{flag}={address}" for flag, address in addresses.items())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "SPAN_STORAGE_TYPE": "memory"},
        cwd=pathlib.Path("/"),
    )
    for line in process.stderr:
        if b'"status":"ready"' in line:
            return process
    process.stderr.close()
    process.wait()
    return None


@contextlib.contextmanager
def running():
    """A Jaeger that serves, and is gone afterwards."""
    for _ in range(_TRIES):
        addresses = _free_addresses()
        process = _start(addresses)
        if process is not None:
            break
    else:
        raise RuntimeError(f"{PROGRAM} does not start")
    draining = threading.Thread(target=process.stderr.read)  # until it ends; or it would wait for a reader
    draining.start()
    try:
        yield Jaeger(
            otlp=f"http://{addresses['collector.otlp.grpc.host-port']}",
            query=f"http://{addresses['query.http-server.host-port']}",
        )
    finally:
        process.kill()
        process.wait()
        draining.join()
        process.stderr.close()
