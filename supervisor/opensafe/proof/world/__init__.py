"""A stand-in for the internet: namespaces with servers that write down whoever reaches them. Needs root."""

from .events import Capture, Event, Kind, Packet
from .world import Outcome, World

__all__ = ["Capture", "Event", "Kind", "Outcome", "Packet", "World"]
