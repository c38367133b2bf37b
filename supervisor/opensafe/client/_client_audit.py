"""What can be asked of the audit log."""

from __future__ import annotations  # ValueType exists for the type checker only

from collections.abc import AsyncIterator, Collection

from opensafe._proto.v1 import audit_pb2
from opensafe.model.decision import Action

from . import _wire
from ._connection import Connection
from ._failures import stream
from ._types import AuditFinding, AuditPage, AuditRecord, AuditReport


class AuditMethods(Connection):
    """The record, as far as this principal may see it: of its own sessions, with the role auditor of all."""

    async def tail_audit(
        self, last: int = 10, *, follow: bool = False, from_index: int | None = None
    ) -> AsyncIterator[AuditRecord]:
        """The `last` records (at most 10000) of this run of the daemon, then new ones as they are written.

        from_index: in the place of `last`, begin with that record, or with the 10000th from the end where it is older,
        and go on without gap or repeat; the daemon may have been started again meanwhile. Raises InvalidArgument where
        the log has no such record, nor is it the next.
        """
        request = audit_pb2.TailRequest(follow=follow)
        if from_index is None:
            request.last = last
        else:
            request.from_index = from_index
        with stream(self._audit.Tail(request), self._path) as messages:
            async for message in messages:
                yield _record(message)

    async def search_audit(
        self,
        *,
        session_id: str = "",
        call_id: str = "",
        principal: str = "",
        kinds: Collection[str] = (),
        action: Action | None = None,
        rule: str = "",
        text: str = "",
        since_us: int = 0,
        until_us: int = 0,
        before_index: int = 0,
        page_size: int = 0,
    ) -> AuditPage:
        """A page of the records that match all that is given, the newest first; at most 500, 100 by default.

        principal: that they name, or that their session is of. action: of decisions. rule: an id, or what ids begin
        with before a dot. text: in the line, whatever its case, at most 200 characters. Times are in microseconds since
        the epoch, until_us excluded. before_index: next_before of the page before. A page can be empty and not the
        last: a request looks through 32 MiB of the log. Raises InvalidArgument.
        """
        answer = await self._ask(
            self._audit.Search(
                audit_pb2.SearchRequest(
                    session_id=session_id,
                    call_id=call_id,
                    principal=principal,
                    kinds=kinds,
                    action=_wire.action_number(action),
                    rule=rule,
                    text=text,
                    since_us=since_us,
                    until_us=until_us,
                    before_index=before_index,
                    page_size=page_size,
                )
            )
        )
        return AuditPage(records=tuple(map(_record, answer.records)), next_before=answer.next_before)

    async def prove_record(self, index: int) -> bytes:
        """A proof that the record stands in the log that was signed last, as JSON: `opensafe audit verify --proof` and
        the public key check it. Raises NotFound, Conflict where it is not signed yet.
        """
        return (await self._ask(self._audit.Prove(audit_pb2.ProveRequest(index=index)))).proof_json

    async def verify_audit(self) -> AuditReport:
        """Log and ledger, verified as `opensafe audit verify` does, which takes a while. Needs the role auditor.

        Raises NotPermitted, Conflict where somebody else verifies or exports, AuditError.
        """
        answer = await self._ask(self._audit.Verify(audit_pb2.VerifyRequest()))
        return AuditReport(
            ok=answer.ok,
            records=answer.records,
            ledger_entries=answer.ledger_entries,
            head=answer.head,
            bytes=answer.bytes,
            decisions=answer.decisions,
            executions=answer.executions,
            key=answer.key,
            checkpoints=answer.checkpoints,
            signed=answer.signed,
            findings=tuple(
                AuditFinding(kind=one.kind, where=one.where, index=one.index, message=one.message)
                for one in answer.findings
            ),
            findings_total=answer.findings_total,
        )

    async def export_evidence(
        self, *, session_id: str = "", call_id: str = "", since_us: int = 0
    ) -> AsyncIterator[bytes]:
        """An evidence bundle (.tar.gz) in pieces: `opensafe audit verify --evidence` checks it. Needs the role auditor.

        since_us: microseconds since the epoch. It is whole when the iteration ends. Raises NotPermitted, Conflict where
        somebody else verifies or exports, AuditError where nothing signed is of that, or it is too large.
        """
        request = audit_pb2.ExportRequest(session_id=session_id, call_id=call_id, since_us=since_us)
        with stream(self._audit.Export(request), self._path) as messages:
            async for message in messages:
                yield message.content


def _record(message: audit_pb2.TailResponse) -> AuditRecord:
    return AuditRecord(index=message.index, leaf=message.leaf, line=message.line)
