"""Bans of agents and principals."""

from typing import Any

from opensafe._proto.v1 import agent_pb2, agent_pb2_grpc
from opensafe.control.bans import Bans
from opensafe.desk import Desk
from opensafe.model.calls import Principal

from . import convert


class AgentService(agent_pb2_grpc.AgentServiceServicer):
    """See agent.proto."""

    def __init__(self, desk: Desk, bans: Bans, principal: Principal) -> None:
        self._desk = desk
        self._bans = bans
        self._principal = principal

    async def Ban(  # noqa: N802 - the name of the RPC
        self,
        request: agent_pb2.BanRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> agent_pb2.BanResponse:
        """Ban, and end what runs and waits."""
        ended, voided = await self._desk.ban(
            self._principal, convert.subject_of(request.subject), request.reason[:1000]
        )
        return agent_pb2.BanResponse(ended_calls=ended, voided_reviews=voided)

    async def Unban(  # noqa: N802 - the name of the RPC
        self,
        request: agent_pb2.UnbanRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> agent_pb2.UnbanResponse:
        """Lift a ban."""
        await self._desk.unban(self._principal, convert.subject_of(request.subject))
        return agent_pb2.UnbanResponse()

    async def ListBans(  # noqa: N802 - the name of the RPC
        self,
        request: agent_pb2.ListBansRequest,  # noqa: ARG002 - it is empty
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> agent_pb2.ListBansResponse:
        """Bans in force."""
        return agent_pb2.ListBansResponse(bans=[convert.ban(row) for row in self._bans.visible(self._principal)])
