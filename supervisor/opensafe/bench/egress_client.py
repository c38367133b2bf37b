"""The client of `opensafe bench egress`: a plain process that speaks from the namespaces it is told.

    python -m opensafe.bench.egress_client <PLAN >TIMES

A program in a sandbox would do the same through gVisor's stack, whose cost is larger than what is measured here and the
same for every target. Sockets belong to the namespace in which they were made: one thread takes all targets by turns.
"""

import contextlib
import os
import socket
import ssl
import sys
import time
from collections.abc import Callable
from typing import Final

import msgspec

from opensafe.warden import kernel

_HTTP, _HTTPS = 80, 443
_DEADLINE_S: Final = 20
_CHUNK: Final = 256 * 1024
_PAGE: Final = "/hello"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where a name is reached. namespace: of the client, a path; "": the one that this process was started in."""

    namespace: str = ""
    address: str
    name: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do. held: each has a tunnel open meanwhile. connections, requests: samples of each target.

    bulk_bytes: of one download, of which there are `bulks`.
    """

    ca: str
    targets: dict[str, Target]
    held: tuple[Target, ...] = ()
    warm_up: int = 0
    connections: int = 0
    requests: int = 0
    bulks: int = 0
    bulk_bytes: int = 0


#: Nanoseconds of each sample, by kind and target. handshake: from connect(2) to the end of the TLS handshake. https: to
#: the end of the first answer on it. http: a request on a connection that stays. bulk: one download.
Took = dict[str, dict[str, list[int]]]


class _Client:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._tls = ssl.create_default_context(cafile=plan.ca)
        self._own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._namespaces: dict[str, int] = {}
        self._took: Took = {}

    def run(self) -> Took:
        plan = self._plan
        with contextlib.ExitStack() as stack:
            for target in plan.held:
                _get(stack.enter_context(self._secure(target)), target, _PAGE)
            self._rounds(plan.connections, self._connect)
            if plan.requests:
                kept = {name: stack.enter_context(self._dial(one, _HTTP)) for name, one in plan.targets.items()}
                self._rounds(plan.requests, lambda name: self._request(kept[name], plan.targets[name]))
            self._rounds(plan.bulks, self._bulk)
        return self._took

    def _rounds(self, count: int, sample: Callable[[str], dict[str, int]]) -> None:
        """Each target once a round; they take turns at going first."""
        names = list(self._plan.targets)
        for number in range(-min(self._plan.warm_up, count), count):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                for kind, took in sample(name).items():
                    if number >= 0:
                        self._took.setdefault(kind, {}).setdefault(name, []).append(took)

    def _connect(self, name: str) -> dict[str, int]:
        target = self._plan.targets[name]
        self._enter(target)
        begun = time.perf_counter_ns()
        with self._shake(target) as secure:
            shaken = time.perf_counter_ns()
            _get(secure, target, _PAGE)
            return {"handshake": shaken - begun, "https": time.perf_counter_ns() - begun}

    def _request(self, kept: socket.socket, target: Target) -> dict[str, int]:
        begun = time.perf_counter_ns()
        _get(kept, target, _PAGE)
        return {"http": time.perf_counter_ns() - begun}

    def _bulk(self, name: str) -> dict[str, int]:
        target = self._plan.targets[name]
        with self._secure(target) as secure:
            begun = time.perf_counter_ns()
            _get(secure, target, f"/bytes/{self._plan.bulk_bytes}")
            return {"bulk": time.perf_counter_ns() - begun}

    def _secure(self, target: Target) -> ssl.SSLSocket:
        self._enter(target)
        return self._shake(target)

    def _shake(self, target: Target) -> ssl.SSLSocket:
        return self._tls.wrap_socket(_dial(target, _HTTPS), server_hostname=target.name)

    def _dial(self, target: Target, port: int) -> socket.socket:
        self._enter(target)
        return _dial(target, port)

    def _enter(self, target: Target) -> None:
        path = target.namespace
        if path and path not in self._namespaces:
            self._namespaces[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        kernel.enter_network(self._namespaces[path] if path else self._own)


def _dial(target: Target, port: int) -> socket.socket:
    made = socket.create_connection((target.address, port), timeout=_DEADLINE_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _get(connection: socket.socket, target: Target, path: str) -> None:
    """One request and its whole answer. Raises OSError for any other than 200."""
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {target.name}\r\n\r\n".encode())
    answer = connection.recv(_CHUNK)
    while answer and b"\r\n\r\n" not in answer:
        answer += connection.recv(_CHUNK)
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise OSError(f"{target.name} at {target.address} answers {head[:200]!r} {body[:200]!r}")
    length = next(
        int(line.partition(b":")[2]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
    )
    left, buffer = length - len(body), bytearray(_CHUNK)
    while left > 0:
        read = connection.recv_into(buffer)
        if not read:
            raise OSError(f"{target.name} at {target.address}: {left} of {length} bytes are missing")
        left -= read


def main() -> int:
    """Do what the plan says; the times as JSON."""
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)
    sys.stdout.buffer.write(msgspec.json.encode(_Client(plan).run()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
