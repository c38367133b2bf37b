"""The audit log as it is written, and as it can be searched."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec

from opensafe._proto.v1 import audit_pb2, audit_pb2_grpc
from opensafe.audit.scope import Scope
from opensafe.audit.search import Query
from opensafe.control.audits import Audits
from opensafe.control.lookup import Lookup, Shown
from opensafe.control.proofs import Proofs
from opensafe.errors import InvalidArgument
from opensafe.model.calls import Principal

from . import convert
from .handlers import gone


class AuditService(audit_pb2_grpc.AuditServiceServicer):
    """See audit.proto."""

    def __init__(self, lookup: Lookup, proofs: Proofs, audits: Audits, principal: Principal) -> None:
        self._lookup = lookup
        self._proofs = proofs
        self._audits = audits
        self._principal = principal

    async def Tail(  # noqa: N802 - the name of the RPC
        self,
        request: audit_pb2.TailRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> AsyncIterator[audit_pb2.TailResponse]:
        """The last records, or those from one on, then those that follow."""
        if request.HasField("from_index"):
            if request.last:
                raise InvalidArgument("last and from_index exclude each other", value=request.last)
            found = self._lookup.since(self._principal, request.from_index, follow=request.follow)
        else:
            found = self._lookup.last(self._principal, request.last, follow=request.follow)
        async for one in found:
            yield _message(one)

    async def Search(  # noqa: N802 - the name of the RPC
        self,
        request: audit_pb2.SearchRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> audit_pb2.SearchResponse:
        """A page of what matches."""
        query = Query(
            session_id=request.session_id,
            call_id=request.call_id,
            kinds=frozenset(request.kinds),
            action=convert.action_asked(request.action) or "",
            rule=request.rule,
            text=request.text,
            since_us=request.since_us,
            until_us=request.until_us,
        )
        page = await self._lookup.search(
            self._principal, query, named=request.principal, before=request.before_index, page=request.page_size
        )
        return audit_pb2.SearchResponse(records=map(_message, page.records), next_before=page.next_before)

    async def Prove(  # noqa: N802 - the name of the RPC
        self,
        request: audit_pb2.ProveRequest,
        context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> audit_pb2.ProveResponse:
        """That a record stands in the signed log."""
        proof = await self._proofs.prove(self._principal, request.index, gone(context))
        return audit_pb2.ProveResponse(proof_json=proof)

    async def Verify(  # noqa: N802 - the name of the RPC
        self,
        request: audit_pb2.VerifyRequest,  # noqa: ARG002 - it is empty
        context: Any,  # noqa: ANN401 - grpc.aio.ServicerContext, untyped
    ) -> audit_pb2.VerifyResponse:
        """Log and ledger, verified."""
        verified = await self._audits.verify(self._principal, gone(context))
        told = msgspec.structs.asdict(verified.report)
        findings = [audit_pb2.AuditFinding(**msgspec.structs.asdict(one)) for one in told.pop("findings")]
        return audit_pb2.VerifyResponse(findings=findings, findings_total=verified.findings, **told)

    async def Export(  # noqa: N802 - the name of the RPC
        self,
        request: audit_pb2.ExportRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> AsyncIterator[audit_pb2.ExportResponse]:
        """Evidence."""
        scope = Scope(session=request.session_id, call=request.call_id, since_us=request.since_us)
        async with aclosing(self._audits.export(self._principal, scope)) as pieces:
            async for content in pieces:
                yield audit_pb2.ExportResponse(content=content)


def _message(one: Shown) -> audit_pb2.TailResponse:
    return audit_pb2.TailResponse(index=one.index, leaf=one.leaf, line=one.line)
