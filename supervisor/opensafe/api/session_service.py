"""Sessions of one principal."""

from typing import Any

from opensafe._proto.v1 import session_pb2, session_pb2_grpc
from opensafe.control.sessions import Sessions
from opensafe.gate import Gate
from opensafe.model.calls import Principal

from .exec_service import trace_carrier


class SessionService(session_pb2_grpc.SessionServiceServicer):
    """See session.proto."""

    def __init__(self, gate: Gate, sessions: Sessions, principal: Principal) -> None:
        self._gate = gate
        self._sessions = sessions
        self._principal = principal

    async def CreateSession(  # noqa: N802 - the name of the RPC
        self,
        request: session_pb2.CreateSessionRequest,
        context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> session_pb2.CreateSessionResponse:
        """Make a session."""
        session_id = await self._sessions.open(
            self._principal, request.agent or "agent", request.conversation_id, trace_carrier(context)
        )
        return session_pb2.CreateSessionResponse(session_id=session_id)

    async def CloseSession(  # noqa: N802 - the name of the RPC
        self,
        request: session_pb2.CloseSessionRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> session_pb2.CloseSessionResponse:
        """End a session and what it holds."""
        await self._gate.close_session(self._principal, request.session_id)
        return session_pb2.CloseSessionResponse()
