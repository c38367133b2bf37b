"""Sessions of one principal."""

from typing import Any

from opensafe._proto.v1 import session_pb2, session_pb2_grpc
from opensafe.control.sessions import Sessions
from opensafe.desk import Desk
from opensafe.model.calls import Principal

from . import convert
from .exec_service import trace_carrier


class SessionService(session_pb2_grpc.SessionServiceServicer):
    """See session.proto."""

    def __init__(self, desk: Desk, sessions: Sessions, principal: Principal) -> None:
        self._desk = desk
        self._sessions = sessions
        self._principal = principal

    async def CreateSession(  # noqa: N802 - the name of the RPC
        self,
        request: session_pb2.CreateSessionRequest,
        context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> session_pb2.CreateSessionResponse:
        """Make a session."""
        session_id = await self._sessions.open(
            self._principal,
            request.agent or "agent",
            request.conversation_id,
            trace_carrier(context),
            convert.budget_of(request.limits),
        )
        return session_pb2.CreateSessionResponse(session_id=session_id)

    async def CloseSession(  # noqa: N802 - the name of the RPC
        self,
        request: session_pb2.CloseSessionRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> session_pb2.CloseSessionResponse:
        """End a session and what it holds."""
        await self._desk.close_session(self._principal, request.session_id)
        return session_pb2.CloseSessionResponse()

    async def ReportUsage(  # noqa: N802 - the name of the RPC
        self,
        request: session_pb2.ReportUsageRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> session_pb2.ReportUsageResponse:
        """Add what the client declares."""
        total = await self._sessions.report_usage(
            self._principal,
            request.session_id,
            request.tokens,
            request.cost_microusd,
            request.output_tokens if request.HasField("output_tokens") else None,
        )
        return session_pb2.ReportUsageResponse(tokens=total.tokens, cost_microusd=total.cost_microusd)
