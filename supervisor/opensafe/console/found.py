"""Records that a search found, in a line each: what a record is about and whose it is."""

import msgspec

from opensafe.client import AuditRecord
from opensafe.model import records
from opensafe.model.decision import Action
from opensafe.model.records import (
    BanRecord,
    BundleRecord,
    CandidateRecord,
    ConnectionRecord,
    DaemonRecord,
    DecisionRecord,
    OutcomeRecord,
    Record,
    RefusalRecord,
    ReviewRecord,
    SandboxRecord,
    SessionRecord,
    ShadowRecord,
    UsageRecord,
)

from .board import target

_RULES_MAX = 5


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One record. action: of a decision, else None. who, session: "" where it has none."""

    index: int
    time_us: int
    kind: str
    what: str
    who: str = ""
    session: str = ""
    action: Action | None = None
    rules: tuple[str, ...] = ()


def found(record: AuditRecord) -> Found:
    """A record that this console does not know keeps its index and nothing else."""
    try:
        one = records.decode(record.line)
    except (msgspec.DecodeError, RecursionError):
        return Found(index=record.index, time_us=0, kind="?", what="")
    action: Action | None = None
    rules: tuple[str, ...] = ()
    if isinstance(one, DecisionRecord):
        action = one.result.action
        rules = tuple(dict.fromkeys(hit.id for hit in one.result.deciding()))[:_RULES_MAX]
    elif isinstance(one, ConnectionRecord):
        rules = one.rules[:_RULES_MAX]
    return Found(
        index=record.index,
        time_us=getattr(one, "time_us", 0),
        kind=str(one.__struct_config__.tag),
        what=_what(one),
        who=getattr(one, "principal", "") or getattr(one, "decided_by", ""),
        session=getattr(one, "session_id", ""),
        action=action,
        rules=rules,
    )


def _what(one: Record) -> str:
    match one:
        case DecisionRecord():
            what = f"{one.input.call.tool}({target(one)})" if one.input.call.tool else target(one)
            return what if one.purpose == "call" else f"{one.purpose}: {what}"
        case OutcomeRecord():
            code = f" {one.outcome.exit_code}" if one.outcome.exit_code is not None else ""
            return f"{one.call_id}: {one.outcome.kind}{code} {one.outcome.detail}".rstrip()
        case ConnectionRecord():
            port = f":{one.port}" if one.port is not None else ""
            return f"{one.state} {one.protocol or one.layer} {one.name or one.address}{port} {one.reason}".rstrip()
        case RefusalRecord():
            return f"{one.tool or one.request}: {one.reason}: {one.message}"
        case ReviewRecord():
            return f"{one.review_id} {one.state} {one.reason}".rstrip()
        case BanRecord():
            return f"{one.state} {one.agent or one.principal} {one.reason}".rstrip()
        case SessionRecord():
            return f"{one.state} {one.agent}".rstrip()
        case SandboxRecord():
            return f"{one.sandbox_id} {one.state} {one.cause}".rstrip()
        case BundleRecord():
            return f"{one.state} {one.revision or one.digest[:16]} {one.reason}".rstrip()
        case CandidateRecord():
            return f"{one.state} {one.candidate.revision}"
        case ShadowRecord():
            return f"{one.decision_id}: {one.enforced}, {one.action} by {one.candidate.revision}"
        case DaemonRecord():
            return f"{one.state} {one.version}"
        case UsageRecord():
            return msgspec.json.encode(one.usage).decode()
        case _:
            return ""
