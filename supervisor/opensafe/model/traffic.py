"""What sandboxes have open and have used of the network, as the egress helper tells it to whoever asks.

Nothing of it is kept anywhere else: it is asked for when somebody wants to see it, and true at that moment. Names come
from guests, so all of it is bounded where it is decoded.
"""

from typing import Annotated, Literal

import msgspec

from .decision import RuleHit

#: What can be asked for.
What = Literal["connections", "hosts", "standing"]

_Text = Annotated[str, msgspec.Meta(max_length=512)]
_Line = Annotated[str, msgspec.Meta(max_length=1024)]
_Count = Annotated[int, msgspec.Meta(ge=0)]


class OpenConnection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An open connection as it is shown. since_us: UTC microseconds. sent, received: bytes, as the guest sees it."""

    sandbox_id: _Text
    exec_id: _Text
    layer: _Text
    name: _Text
    port: _Count | None
    source: _Text
    source_port: _Count
    since_us: _Count
    sent: _Count
    received: _Count
    call_id: _Text = ""


class Layer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The verdict on one step of the way. layer: dns, tls, http or tcp. port: None for dns. rules: that decided."""

    layer: _Text
    port: _Count | None
    allowed: bool
    rules: tuple[RuleHit, ...]


class HostCount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One host of one sandbox since its start. allowed, refused: checks. sent, received: bytes, seen by the guest.

    DNS questions count where they are refused: the connection that would have followed never came.
    """

    sandbox_id: _Text
    name: _Text
    allowed: _Count = 0
    refused: _Count = 0
    sent: _Count = 0
    received: _Count = 0


class Standing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a sandbox may reach at this moment, and why not more.

    address: from which it speaks, "" where it has no way out. programs: calls that run in it, file operations excepted.
    call_id, session_id, tool, network: of the call whose grant is open and the names it covers, "" where none is.
    sent, received, requests: what its session has used of the network since its decision. over: why the session's own
    limits leave nothing, or "". bundle: digest of what is judged by, "" for nothing. layers: what going for the host
    that was asked about would be told there.
    """

    sandbox_id: _Text
    address: _Text = ""
    programs: _Count = 0
    call_id: _Text = ""
    session_id: _Text = ""
    tool: _Text = ""
    network: tuple[_Text, ...] = ()
    sent: _Count = 0
    received: _Count = 0
    requests: _Count = 0
    over: _Line = ""
    bundle: _Text = ""
    layers: Annotated[tuple[Layer, ...], msgspec.Meta(max_length=8)] = ()


class Sight(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was seen of the first `covered` of the sandboxes that were asked about: whole sandboxes, at least one."""

    covered: Annotated[int, msgspec.Meta(ge=1)]
    connections: Annotated[tuple[OpenConnection, ...], msgspec.Meta(max_length=1024)] = ()
    hosts: Annotated[tuple[HostCount, ...], msgspec.Meta(max_length=1024)] = ()
    standing: Standing | None = None
