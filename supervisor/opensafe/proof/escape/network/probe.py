"""A probe of the network boundary: a program, its part of the world, and what in the evidence is a breach."""

import enum
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from opensafe.proof.escape.probe import Probe
from opensafe.proof.world import Event, Packet


class Place(enum.StrEnum):
    """Where a control runs: in a namespace that is routed straight to the world, or in the host's own."""

    PLAIN = "plain"
    HOST = "host"


class Action(enum.StrEnum):
    """What the suite does to the daemon once a probe has begun (delete: afterwards). Such a probe runs alone."""

    NONE = ""
    KILL_ENVOY = "kill-envoy"
    REVOKE = "revoke"
    DELETE = "delete"


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """One run's own part of the world, so that whatever is seen there is of this run.

    nonce: letters and digits that stand in what it sends. sink, private: addresses of the world's network and of its
    trap. six: the sink in IPv6. port: of the listener on the host. front: where a web server is asked without DNS, ""
    if by name. acted_us: when the suite's action was done, UTC microseconds, 0 without.
    """

    nonce: str
    sink: str
    private: str
    six: str
    port: int = 0
    front: str = ""
    acted_us: int = 0


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen from outside during a run, of its way into the world alone.

    packets: those that came in. host: what the host's own listener was sent. gateway: lines on what the gateway's
    namespace holds: its listening ports, its neighbours, its links to sandboxes.
    """

    events: tuple[Event, ...]
    packets: tuple[Packet, ...]
    host: tuple[bytes, ...] = ()
    gateway: tuple[str, ...] = ()


class NetworkProbe(Probe, frozen=True, kw_only=True):
    """One attempt to reach what the call was not granted.

    program: Python for the guest, behind the prelude (program.py). granted: names that the call names and so may
    reach, with {sink} and {private} for the spelt addresses. found: the breach in the evidence, in words, "" where
    there is none. cue: what a server reads, with the nonce behind it, before the action is done. missing: what the
    evidence must have and has not for the attempt to be a real one, in words; None where its beginning says enough.
    """

    program: str
    found: Callable[[Scene, Evidence], str]
    granted: tuple[str, ...] = ()
    place: Place = Place.PLAIN
    action: Action = Action.NONE
    cue: str = ""
    missing: Callable[[Scene, Evidence], str] | None = None


_LAYERS: Final = {
    "ConnectionRefusedError": "packet filter: reset",
    "gaierror": "name server: no such name",
    "PermissionError": "sentry: no permission",
    "[Errno 18]": "call filter",
    "SSLEOFError": "gateway: closed in the handshake",
    "SSLZeroReturnError": "gateway: closed in the handshake",
    "ConnectionResetError": "gateway: reset",
    "403": "gateway: 403",
    "404": "gateway: 404",
    "503": "gateway: 503",
    "[Errno 101]": "no route",
    "TimeoutError": "silence",
}


def layers(hints: Sequence[str]) -> str:
    """What stopped a run, as far as its hints tell."""
    return ", ".join({layer: None for hint in hints for sign, layer in _LAYERS.items() if sign in hint})
