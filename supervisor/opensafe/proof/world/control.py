"""What the world's child tells its parent and is asked by it: JSON lines over its stdout and stdin."""

from typing import Final

import msgspec

from .events import Capture, Event

#: Longest line. A capture is the largest thing that is told.
LINE_MAX: Final = 64 << 20


class Entered(msgspec.Struct, frozen=True, tag="entered"):
    """The child is alone in its namespace, and no other world stands on this host."""


class Serving(msgspec.Struct, frozen=True, tag="serving"):
    """Every server listens. pem: the root certificate."""

    pem: bytes


class Seen(msgspec.Struct, frozen=True, tag="seen"):
    """A server saw something."""

    event: Event


class Captured(msgspec.Struct, frozen=True, tag="captured"):
    """The packets so far; everything that servers saw before was told before."""

    capture: Capture


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """The links are there: serve. links: those whose packets count."""

    links: tuple[str, ...]


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """Tell the packets so far."""


Told = Entered | Serving | Seen | Captured
Asked = Begin | Ask

ENCODER: Final = msgspec.json.Encoder()
TOLD: Final = msgspec.json.Decoder(Told)
ASKED: Final = msgspec.json.Decoder(Asked)


def line(message: Told | Asked) -> bytes:
    """One message with its newline."""
    return ENCODER.encode(message) + b"\n"
