"""Sandboxes of one principal."""

from collections.abc import AsyncIterator
from typing import Any

from opensafe._proto.v1 import sandbox_pb2, sandbox_pb2_grpc
from opensafe.control.sandbox_list import SandboxList
from opensafe.control.sandboxes import Sandboxes
from opensafe.model.calls import Principal

from . import convert, sandbox_messages
from .exec_service import trace_carrier


class SandboxService(sandbox_pb2_grpc.SandboxServiceServicer):
    """See sandbox.proto."""

    def __init__(self, sandboxes: Sandboxes, listed: SandboxList, principal: Principal) -> None:
        self._sandboxes = sandboxes
        self._list = listed
        self._principal = principal

    async def CreateSandbox(  # noqa: N802 - the name of the RPC
        self,
        request: sandbox_pb2.CreateSandboxRequest,
        context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> sandbox_pb2.CreateSandboxResponse:
        """Judge, then make."""
        wanted = sandbox_messages.wanted(request)
        made = await self._sandboxes.make(self._principal, request.session_id, wanted, trace_carrier(context))
        return sandbox_pb2.CreateSandboxResponse(
            sandbox=sandbox_messages.sandbox(made.row),
            decision=convert.decision(made.judged.verdict),
            create_ns=made.create_ns,
            warm=made.warm,
            claim_ns=made.claim_ns,
        )

    async def GetSandbox(  # noqa: N802 - the name of the RPC
        self,
        request: sandbox_pb2.GetSandboxRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> sandbox_pb2.GetSandboxResponse:
        """One sandbox."""
        row = self._sandboxes.find(self._principal, request.sandbox_id)
        return sandbox_pb2.GetSandboxResponse(sandbox=sandbox_messages.sandbox(row))

    async def ListSandboxes(  # noqa: N802 - the name of the RPC
        self,
        request: sandbox_pb2.ListSandboxesRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> sandbox_pb2.ListSandboxesResponse:
        """A page of the principal's sandboxes."""
        rows, cursor = self._list.page(
            self._principal, sandbox_messages.filtered(request), request.page_size, request.cursor
        )
        return sandbox_pb2.ListSandboxesResponse(
            sandboxes=[sandbox_messages.sandbox(row) for row in rows], next_cursor=cursor
        )

    async def RenewSandbox(  # noqa: N802 - the name of the RPC
        self,
        request: sandbox_pb2.RenewSandboxRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> sandbox_pb2.RenewSandboxResponse:
        """Let it live on."""
        row = await self._sandboxes.renew(self._principal, request.sandbox_id, request.ttl_s)
        return sandbox_pb2.RenewSandboxResponse(sandbox=sandbox_messages.sandbox(row))

    async def PauseSandbox(  # noqa: N802 - the name of the RPC
        self,
        request: sandbox_pb2.PauseSandboxRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> sandbox_pb2.PauseSandboxResponse:
        """Stop everything in it."""
        row = await self._sandboxes.pause(self._principal, request.sandbox_id)
        return sandbox_pb2.PauseSandboxResponse(sandbox=sandbox_messages.sandbox(row))

    async def ResumeSandbox(  # noqa: N802 - the name of the RPC
        self,
        request: sandbox_pb2.ResumeSandboxRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> sandbox_pb2.ResumeSandboxResponse:
        """Let it go on."""
        row = await self._sandboxes.resume(self._principal, request.sandbox_id)
        return sandbox_pb2.ResumeSandboxResponse(sandbox=sandbox_messages.sandbox(row))

    async def DeleteSandbox(  # noqa: N802 - the name of the RPC
        self,
        request: sandbox_pb2.DeleteSandboxRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> sandbox_pb2.DeleteSandboxResponse:
        """End and remove a sandbox."""
        await self._sandboxes.delete(self._principal, request.sandbox_id, wait=request.wait)
        return sandbox_pb2.DeleteSandboxResponse()

    async def WatchSandboxes(  # noqa: N802 - the name of the RPC
        self,
        request: sandbox_pb2.WatchSandboxesRequest,  # noqa: ARG002 - it is empty
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> AsyncIterator[sandbox_pb2.WatchSandboxesResponse]:
        """What lives, then what changes."""
        async for row in self._list.watch(self._principal):
            yield sandbox_pb2.WatchSandboxesResponse(sandbox=sandbox_messages.sandbox(row))
