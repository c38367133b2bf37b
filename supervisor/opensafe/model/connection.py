"""What became of a connection or a DNS question of a sandbox: told by the egress helper, or by the warden where it was
refused at its first packet, and put on record by the front.
"""

from collections.abc import Iterable
from typing import Annotated

import msgspec

from .canonical import MAX_SAFE_INTEGER
from .usage import HostUse, Usage

_Text = Annotated[str, msgspec.Meta(max_length=512)]
#: What has a form on record (canonical.py): who tells of connections is believed no more than that.
_Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_SAFE_INTEGER)]
_State = Annotated[str, msgspec.Meta(pattern=r"^(allowed|refused|ended|cut)\Z")]


class Connection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One verdict of `gate/egress`, a refusal of the packet rules, or (state `ended`, `cut`) an end of the allowed.

    time_us: UTC microseconds. state: allowed, refused, ended, cut. decision_id, call_id, exec_id, session_id,
    principal, trace_id: of the call whose grant it came under, "" where none lives there. layer: dns, tls, http,
    tcp, or packet, which alone has a protocol: tcp, udp, icmp or a number. name: as it was judged. address: the one
    dialled, "" where none is known. rules: ids that decided. reason: in words, of a refusal. method: where it is seen.
    begun_us: of what has ended, when it was let out; sent, received: its bytes. count: how many equal refusals it
    stands for. revision: of the bundle that judged.
    """

    time_us: _Count
    state: _State
    sandbox_id: _Text = ""
    exec_id: _Text = ""
    decision_id: _Text = ""
    call_id: _Text = ""
    session_id: _Text = ""
    principal: _Text = ""
    trace_id: _Text = ""
    layer: _Text = ""
    protocol: _Text = ""
    name: _Text = ""
    port: _Count | None = None
    address: _Text = ""
    method: _Text = ""
    rules: Annotated[tuple[_Text, ...], msgspec.Meta(max_length=16)] = ()
    reason: Annotated[str, msgspec.Meta(max_length=1024)] = ""
    begun_us: _Count = 0
    sent: _Count = 0
    received: _Count = 0
    count: Annotated[int, msgspec.Meta(ge=1, le=MAX_SAFE_INTEGER)] = 1
    revision: _Text = ""

    @property
    def usage(self) -> Usage | None:
        """See `used`."""
        return used(self.state, self.layer, self.sent, self.received)


def used(state: str, layer: str, sent: int, received: int) -> Usage | None:
    """What a connection used up of its session's budget: a request as it is let out, its bytes as it ends."""
    if state == "allowed":
        return Usage(requests=1) if layer != "dns" else None
    if not sent and not received:
        return None
    return Usage(egress_bytes=min(sent, MAX_SAFE_INTEGER), ingress_bytes=min(received, MAX_SAFE_INTEGER))


def of_host(usage: Usage) -> HostUse:
    """The same, of the one host that it was with."""
    return HostUse(requests=usage.requests, egress_bytes=usage.egress_bytes, ingress_bytes=usage.ingress_bytes)


def covers(granted: Iterable[str], name: str) -> bool:
    """Whether a grant covers a name, both canonical: by exactly it, or by `*.` and one of the names it is below."""
    labels = name.split(".")
    wild = {"*." + ".".join(labels[at:]) for at in range(1, len(labels))} if not labels[-1].isdigit() else set()
    return any(one == name or one in wild for one in granted)
