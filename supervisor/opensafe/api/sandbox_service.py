"""Sandboxes of one principal."""

from typing import Any

from opensafe._proto.v1 import sandbox_pb2, sandbox_pb2_grpc
from opensafe.control.sandboxes import Sandboxes
from opensafe.errors import NotFound
from opensafe.model.calls import Principal

from . import convert


class SandboxService(sandbox_pb2_grpc.SandboxServiceServicer):
    """See sandbox.proto."""

    def __init__(self, sandboxes: Sandboxes, principal: Principal) -> None:
        self._sandboxes = sandboxes
        self._principal = principal

    async def CreateSandbox(  # noqa: N802 - the name of the RPC
        self,
        request: sandbox_pb2.CreateSandboxRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> sandbox_pb2.CreateSandboxResponse:
        """Judge, then make."""
        made = await self._sandboxes.make(
            self._principal, request.session_id, request.template, convert.limits_of(request.limits)
        )
        message = convert.sandbox(made.row, None)
        message.state, message.cause = "running", ""
        return sandbox_pb2.CreateSandboxResponse(
            sandbox=message, decision=convert.decision(made.judged.verdict), create_ns=made.create_ns
        )

    async def GetSandbox(  # noqa: N802 - the name of the RPC
        self,
        request: sandbox_pb2.GetSandboxRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> sandbox_pb2.GetSandboxResponse:
        """One sandbox."""
        for row, state in await self._sandboxes.states(self._principal):
            if row.sandbox_id == request.sandbox_id:
                return sandbox_pb2.GetSandboxResponse(sandbox=convert.sandbox(row, state))
        raise NotFound("no such sandbox", value=request.sandbox_id)

    async def ListSandboxes(  # noqa: N802 - the name of the RPC
        self,
        request: sandbox_pb2.ListSandboxesRequest,  # noqa: ARG002 - it is empty
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> sandbox_pb2.ListSandboxesResponse:
        """All of the principal's sandboxes, oldest first."""
        states = await self._sandboxes.states(self._principal)
        return sandbox_pb2.ListSandboxesResponse(sandboxes=[convert.sandbox(row, state) for row, state in states])

    async def DeleteSandbox(  # noqa: N802 - the name of the RPC
        self,
        request: sandbox_pb2.DeleteSandboxRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> sandbox_pb2.DeleteSandboxResponse:
        """End and remove a sandbox."""
        await self._sandboxes.delete(self._principal, request.sandbox_id)
        return sandbox_pb2.DeleteSandboxResponse()
