"""The audit log as it is written."""

from collections.abc import AsyncIterator
from typing import Any, Final

from opensafe._proto.v1 import audit_pb2, audit_pb2_grpc
from opensafe.audit.log import AuditLog, Written
from opensafe.errors import InvalidArgument
from opensafe.model.calls import Principal
from opensafe.model.records import BanRecord, BundleRecord, CandidateRecord, DaemonRecord, TornRecord
from opensafe.state.store import Store

AUDITOR: Final = "auditor"
_LAST_MAX: Final = 10_000


class AuditService(audit_pb2_grpc.AuditServiceServicer):
    """See audit.proto. Without the role `auditor` a principal sees the records of its own sessions."""

    def __init__(self, log: AuditLog, store: Store, principal: Principal) -> None:
        self._log = log
        self._store = store
        self._principal = principal

    async def Tail(  # noqa: N802 - the name of the RPC
        self,
        request: audit_pb2.TailRequest,
        context: Any,  # noqa: ANN401, ARG002 - the form of a handler
    ) -> AsyncIterator[audit_pb2.TailResponse]:
        """The last records of this run of the daemon, then those that follow."""
        if not 0 <= request.last <= _LAST_MAX:
            raise InvalidArgument("last is out of range", value=request.last, limit=f"0 to {_LAST_MAX}")
        async for written in self._log.read(request.last, follow=request.follow):
            if self._visible(written):
                yield audit_pb2.TailResponse(index=written.head.size - 1, leaf=written.leaf, line=written.line)

    def _visible(self, written: Written) -> bool:
        if AUDITOR in self._principal.roles:
            return True
        record = written.record
        if isinstance(record, BanRecord | BundleRecord | CandidateRecord | DaemonRecord | TornRecord):
            return False
        session = self._store.session(record.session_id)
        return session is not None and session.principal == self._principal.name
