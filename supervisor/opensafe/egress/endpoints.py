"""Listed endpoints as the helper knows them: which names have an address of their own, and what is meant by it.

The address follows from the name, and one that has stood for a name stands for no other while there are free ones: a
guest may keep what it was told for longer than a bundle is in force.
"""

import hashlib
import ipaddress
from collections.abc import Iterable

import structlog

Pair = tuple[str, int]

_log = structlog.get_logger()


class Endpoints:
    """Names and ports of the bundle in force, with addresses out of one IPv4 network."""

    def __init__(self, network: str) -> None:
        self._network = ipaddress.IPv4Network(network)
        self._ports: dict[str, frozenset[int]] = {}
        self._addresses: dict[str, str] = {}
        self._names: dict[str, str] = {}
        #: Who has had an address, by its number.
        self._had: dict[int, str] = {}

    def lead(self, listed: Iterable[str]) -> None:
        """Know these ("name:port") and no others."""
        ports: dict[str, set[int]] = {}
        for one in listed:
            name, _, port = one.rpartition(":")
            ports.setdefault(name, set()).add(int(port))
        numbers = {name: number for number, name in self._had.items() if name in ports}
        for name in sorted(ports.keys() - numbers.keys()):
            number = self._free(name, numbers.values())
            if number is None:
                _log.error("no synthetic address is left for a listed name", name=name, network=str(self._network))
            else:
                numbers[name] = number
                self._had[number] = name
        self._ports = {name: frozenset(ports[name]) for name in numbers}
        self._addresses = {name: str(self._network[number]) for name, number in numbers.items()}
        self._names = {address: name for name, address in self._addresses.items()}

    def address(self, name: str) -> str:
        """That of a canonical name; "" where it has none."""
        return self._addresses.get(name, "")

    def meant(self, pair: Pair) -> str:
        """The name that an address stands for, where the port is listed with it; else ""."""
        name = self._names.get(pair[0], "")
        return name if self.lists(name, pair[1]) else ""

    def lists(self, name: str, port: int) -> bool:
        """Whether this is a listed endpoint."""
        return port in self._ports.get(name, ())

    def pairs(self) -> tuple[Pair, ...]:
        """All of them, by address."""
        return tuple((self._addresses[name], port) for name, ports in self._ports.items() for port in sorted(ports))

    def _free(self, name: str, taken: Iterable[int]) -> int | None:
        """A number for a new name: of those that nobody has, preferably one that nobody has had."""
        there = self._network.num_addresses - 2  # the first and the last are no host's
        first = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
        order = [1 + (first + step) % there for step in range(there)]
        busy = set(taken)
        for never in (self._had, ()):
            for number in order:
                if number not in busy and number not in never:
                    return number
        return None
