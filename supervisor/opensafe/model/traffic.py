"""What sandboxes have open and have used of the network, as the egress helper tells it to whoever asks.

Nothing of it is kept anywhere else: it is asked for when somebody wants to see it, and true at that moment. Names come
from guests, so all of it is bounded where it is decoded.
"""

from typing import Annotated, Literal

import msgspec

from .calls import Principal
from .policy_input import BudgetInput, SessionInput

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


class GrantedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The running call whose grant is open. session, budget: as its decision saw them; network: names it covers."""

    exec_id: _Text
    decision_id: _Text
    call_id: _Text
    tool: _Text
    digest: _Text
    profile: _Text
    principal: Principal
    network: tuple[_Text, ...]
    session: SessionInput
    budget: BudgetInput


class Standing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a sandbox may reach at this moment, and why not more.

    address: from which it speaks, "" where it has no way out. programs: calls that run in it, file operations excepted.
    call: None where no grant is open. sent, requests: bytes and requests of its session since its decision. over: why
    the session's own limits leave nothing, or "". bundle: digest of what is judged by, "" for nothing.
    """

    sandbox_id: _Text
    address: _Text
    programs: _Count
    call: GrantedCall | None
    sent: _Count = 0
    requests: _Count = 0
    over: _Line = ""
    bundle: _Text = ""


class Sight(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was seen of the first `covered` of the sandboxes that were asked about: whole sandboxes, at least one."""

    covered: Annotated[int, msgspec.Meta(ge=1)]
    connections: Annotated[tuple[OpenConnection, ...], msgspec.Meta(max_length=1024)] = ()
    hosts: Annotated[tuple[HostCount, ...], msgspec.Meta(max_length=1024)] = ()
    standing: Standing | None = None
