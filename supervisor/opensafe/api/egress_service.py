"""The way out of sandboxes: explained, and what it is used for."""

from typing import Any

from opensafe._proto.v1 import egress_pb2, egress_pb2_grpc
from opensafe.control.traffic import Traffic
from opensafe.model.calls import Principal
from opensafe.model.traffic import Layer, Standing

from . import convert


class EgressService(egress_pb2_grpc.EgressServiceServicer):
    """See egress.proto."""

    def __init__(self, traffic: Traffic, principal: Principal) -> None:
        self._traffic = traffic
        self._principal = principal

    async def ExplainEgress(  # noqa: N802 - the name of the RPC
        self,
        request: egress_pb2.ExplainEgressRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> egress_pb2.ExplainEgressResponse:
        """Whether a host would be reached, and why."""
        found = await self._traffic.explain(self._principal, request.host, request.sandbox_id)
        return egress_pb2.ExplainEgressResponse(
            name=found.name,
            port=found.port or 0,
            classes=found.classes,
            reachable=found.reachable,
            layers=[_layer(one) for one in found.layers],
            obstacles=[
                egress_pb2.EgressObstacle(reason=one.reason, value=one.value, remedy=one.remedy)
                for one in found.obstacles
            ],
            standing=_standing(found.standing) if found.standing is not None else None,
            bundle_revision=found.revision,
        )

    async def ListConnections(  # noqa: N802 - the name of the RPC
        self,
        request: egress_pb2.ListConnectionsRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> egress_pb2.ListConnectionsResponse:
        """What is open."""
        page = await self._traffic.connections(self._principal, request.sandbox_id)
        return egress_pb2.ListConnectionsResponse(
            connections=[
                egress_pb2.EgressConnection(
                    sandbox_id=one.sandbox_id,
                    principal=page.whose.get(one.sandbox_id, ""),
                    call_id=one.call_id,
                    layer=one.layer,
                    name=one.name,
                    port=one.port or 0,
                    since_unix_ns=one.since_us * 1000,
                    sent_bytes=one.sent,
                    received_bytes=one.received,
                )
                for one in page.rows
            ],
            more=page.more,
        )

    async def ListHosts(  # noqa: N802 - the name of the RPC
        self,
        request: egress_pb2.ListHostsRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> egress_pb2.ListHostsResponse:
        """What hosts were used for."""
        page = await self._traffic.hosts(self._principal, request.sandbox_id)
        return egress_pb2.ListHostsResponse(
            hosts=[
                egress_pb2.EgressHost(
                    sandbox_id=one.sandbox_id,
                    principal=page.whose.get(one.sandbox_id, ""),
                    name=one.name,
                    allowed=one.allowed,
                    refused=one.refused,
                    sent_bytes=one.sent,
                    received_bytes=one.received,
                )
                for one in page.rows
            ],
            more=page.more,
        )


def _layer(layer: Layer) -> egress_pb2.EgressLayer:
    return egress_pb2.EgressLayer(
        layer=layer.layer,
        port=layer.port or 0,
        allowed=layer.allowed,
        rules=[convert.rule(hit) for hit in layer.rules],
    )


def _standing(standing: Standing) -> egress_pb2.EgressStanding:
    return egress_pb2.EgressStanding(
        address=standing.address,
        programs=standing.programs,
        call_id=standing.call_id,
        session_id=standing.session_id,
        tool=standing.tool,
        network=standing.network,
        sent_bytes=standing.sent,
        received_bytes=standing.received,
        requests=standing.requests,
    )
