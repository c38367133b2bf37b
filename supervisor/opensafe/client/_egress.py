"""The way out of sandboxes as a client sees it, and the messages of egress.proto."""

import msgspec

from opensafe._proto.v1 import egress_pb2
from opensafe.model.decision import RuleHit
from opensafe.model.reach import Obstacle

from . import _wire


class EgressLayer(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one step of the way. layer: dns, tls, http or tcp. port: 0 for dns. rules: those that decided."""

    layer: str
    port: int
    allowed: bool
    rules: tuple[RuleHit, ...]


class EgressStanding(msgspec.Struct, frozen=True, kw_only=True):
    """What a sandbox may reach now. address: "" where it has no way out. programs: calls that run, but file operations.

    call_id, session_id, tool, network: of the call whose grant is open, and the names it covers; "" where none is.
    sent_bytes, received_bytes, requests: what its session has used since its decision.
    """

    address: str
    programs: int
    call_id: str
    session_id: str
    tool: str
    network: tuple[str, ...]
    sent_bytes: int
    received_bytes: int
    requests: int


class EgressReach(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a host is reached, and why. port: 0 where none was asked for. standing: of the sandbox asked about."""

    name: str
    port: int
    classes: tuple[str, ...]
    reachable: bool
    layers: tuple[EgressLayer, ...]
    obstacles: tuple[Obstacle, ...]
    standing: EgressStanding | None
    bundle_revision: str


class EgressConnection(msgspec.Struct, frozen=True, kw_only=True):
    """An open connection of a sandbox. Bytes as the guest sees them."""

    sandbox_id: str
    principal: str
    call_id: str
    layer: str
    name: str
    port: int
    since_unix_ns: int
    sent_bytes: int
    received_bytes: int


class EgressHost(msgspec.Struct, frozen=True, kw_only=True):
    """What a sandbox had of one host. allowed: connections and requests; refused: beside these DNS questions."""

    sandbox_id: str
    principal: str
    name: str
    allowed: int
    refused: int
    sent_bytes: int
    received_bytes: int


class EgressConnections(msgspec.Struct, frozen=True, kw_only=True):
    """Open connections, oldest first, and how many more there are."""

    connections: tuple[EgressConnection, ...]
    more: int


class EgressHosts(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts by sandbox, most bytes first, and how many more there are."""

    hosts: tuple[EgressHost, ...]
    more: int


def reach(message: egress_pb2.ExplainEgressResponse) -> EgressReach:
    """Raises OpenSafeError where a rule is none of ours."""
    return EgressReach(
        name=message.name,
        port=message.port,
        classes=tuple(message.classes),
        reachable=message.reachable,
        layers=tuple(
            EgressLayer(layer=one.layer, port=one.port, allowed=one.allowed, rules=_wire.rules(one.rules))
            for one in message.layers
        ),
        obstacles=tuple(Obstacle(reason=one.reason, value=one.value, remedy=one.remedy) for one in message.obstacles),
        standing=_standing(message.standing) if message.HasField("standing") else None,
        bundle_revision=message.bundle_revision,
    )


def connections(message: egress_pb2.ListConnectionsResponse) -> EgressConnections:
    """What is open."""
    return EgressConnections(
        connections=tuple(
            EgressConnection(
                sandbox_id=one.sandbox_id,
                principal=one.principal,
                call_id=one.call_id,
                layer=one.layer,
                name=one.name,
                port=one.port,
                since_unix_ns=one.since_unix_ns,
                sent_bytes=one.sent_bytes,
                received_bytes=one.received_bytes,
            )
            for one in message.connections
        ),
        more=message.more,
    )


def hosts(message: egress_pb2.ListHostsResponse) -> EgressHosts:
    """What hosts were used for."""
    return EgressHosts(
        hosts=tuple(
            EgressHost(
                sandbox_id=one.sandbox_id,
                principal=one.principal,
                name=one.name,
                allowed=one.allowed,
                refused=one.refused,
                sent_bytes=one.sent_bytes,
                received_bytes=one.received_bytes,
            )
            for one in message.hosts
        ),
        more=message.more,
    )


def _standing(message: egress_pb2.EgressStanding) -> EgressStanding:
    return EgressStanding(
        address=message.address,
        programs=message.programs,
        call_id=message.call_id,
        session_id=message.session_id,
        tool=message.tool,
        network=tuple(message.network),
        sent_bytes=message.sent_bytes,
        received_bytes=message.received_bytes,
        requests=message.requests,
    )
