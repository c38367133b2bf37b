"""What the monitor found, put on record as every other decision is: the question, the verdict, the bundle.

The call or sandbox was ended by the warden before this is heard; its outcome follows on its own way.
"""

from opensafe.audit.log import AuditLog
from opensafe.model.breach import Breach
from opensafe.model.ids import now_us
from opensafe.model.records import Bundle, DecisionRecord
from opensafe.warden.client import WardenClient

_PATH = "opensafe/gate/runtime"


async def record_breaches(warden: WardenClient, log: AuditLog) -> None:
    """Until cancelled. Raises Unavailable, AuditError."""
    recorded = 0
    while True:
        found = await warden.next_breach(recorded)
        await log.append(_record(found.breach))
        recorded = found.number


def _record(breach: Breach) -> DecisionRecord:
    question = breach.input
    return DecisionRecord(
        time_us=now_us(),
        decision_id=question.id,
        purpose="runtime",
        principal=question.principal.name,
        session_id=question.session.id,
        call_id=question.call.id,
        sandbox_id=breach.sandbox_id,
        exec_id=breach.exec_id,
        bundles={"opensafe": Bundle(revision=breach.revision, digest=breach.digest)},
        path=_PATH,
        input=question,
        result=breach.result,
        subject="",
        metrics={},
        trace_id=breach.trace_id,
        span_id="",
    )
