"""Audit records as events of the Open Cybersecurity Schema Framework, version 1.8.0 (https://schema.ocsf.io/1.8.0).

    6003 API Activity           a request: verdict, refusal, review, ban, session, sandbox, usage; a call that never ran
    1007 Process Activity       a call that ran, when it ended
    2004 Detection Finding      what the monitor saw and ended; a log that is not intact
    4001 Network Activity       a connection that was let out, refused, ended or cut (ocsf_network.py)
    4003 DNS Activity           a name that a sandbox asked for
    5019 Device Config Change   a bundle in force, or refused
    6002 Application Lifecycle  the daemon's start and stop

A record becomes one event or none, and none is counted by the caller. What OCSF has no place for stands in `unmapped`:
the record's place in the chain and its leaf hash, so that an event leads back to what can be proven.
"""

from collections import OrderedDict
from typing import Final

import msgspec

from opensafe.model.decision import Action, Severity
from opensafe.model.outcome import NEVER_EXECUTED, OutcomeKind
from opensafe.model.records import (
    BanRecord,
    BundleRecord,
    ConnectionRecord,
    DaemonRecord,
    DecisionRecord,
    OutcomeRecord,
    Record,
    RefusalRecord,
    ReviewRecord,
    SandboxRecord,
    SessionRecord,
    UsageRecord,
)

from .ocsf_event import (
    CONTROL,
    CREATE,
    CRITICAL,
    DELETE,
    FAILURE,
    HIGH,
    INFORMATIONAL,
    MEDIUM,
    OTHER,
    READ,
    SUCCESS,
    UPDATE,
    Event,
    Place,
    actor,
    correlate,
    device,
    event,
    extend,
    note,
    product,
    request,
    resource,
)
from .ocsf_network import connection

_ACTIVITIES: Final = {
    **dict.fromkeys(("Read", "List", "Stat", "Watch", "Download"), READ),
    **dict.fromkeys(("Write", "Mkdir", "Upload"), CREATE),
    "Move": UPDATE,
    "Remove": DELETE,
}
_TERMINATE: Final = 2
_LOG: Final = 1
_START: Final = 3
_STOP: Final = 4
_SEVERITIES: Final = {kind: number for number, kind in enumerate(Severity, start=INFORMATIONAL)}

#: Attributes of the profile CONTROL.
_ALLOWED: Event = {"action_id": 1, "disposition_id": 1}
_APPROVED: Event = {"action_id": 1, "disposition_id": 8}
_BLOCKED: Event = {"action_id": 2, "disposition_id": 2}
_REJECTED: Event = {"action_id": 2, "disposition_id": 25}
_UNAUTHORIZED: Event = {"action_id": 2, "disposition_id": 26}
_OBSERVED: Event = {"action_id": 3, "disposition_id": 17}
_DELAYED: Event = {"action_id": 99, "action": "Review", "disposition_id": 14}
_BY_ACTION: Final = {Action.ALLOW: _ALLOWED, Action.BLOCK: _BLOCKED, Action.REVIEW: _DELAYED}

#: Calls whose decision is remembered until their outcome comes; a daemon has fewer under way.
_OPEN_CALLS: Final = 10_000


class _Call(msgspec.Struct, frozen=True):
    """What an outcome's event takes from the decision."""

    principal: str
    tool: str
    program: str
    sandbox: str
    run: str


class Mapper:
    """Makes events of one log's records, in order: an outcome's event names the program that its decision allowed."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, _Call] = OrderedDict()

    def event(self, record: Record, place: Place) -> Event | None:
        """The event of a record, None where OCSF has no class (candidate, shadow, torn, removed bundle)."""
        match record:
            case DecisionRecord(purpose="runtime"):
                return _violation(record, place)
            case DecisionRecord():
                return self._decision(record, place)
            case OutcomeRecord():
                return self._outcome(record, place)
            case RefusalRecord():
                return _refusal(record, place)
            case ReviewRecord():
                return _review(record, place)
            case BanRecord():
                return _ban(record, place)
            case SessionRecord():
                return _session(record, place)
            case SandboxRecord():
                return _sandbox(record, place)
            case UsageRecord():
                return _usage(record, place)
            case ConnectionRecord():
                return connection(record, place)
            case DaemonRecord():
                return _daemon(record, place)
            case BundleRecord(state="activated" | "refused"):
                return _bundle(record, place)
            case _:
                return None

    def _decision(self, record: DecisionRecord, place: Place) -> Event:
        call, action = record.input.call, record.result.action
        if action is Action.ALLOW and record.purpose in ("call", "permit"):
            self._remember(record)
        operation = call.tool or "CreateSandbox"
        activity = CREATE if record.purpose == "sandbox" else _ACTIVITIES.get(call.tool, OTHER)
        made = request(record.time_us, place, activity, operation, record.principal, record.session_id)
        made["api"]["request"] = {"uid": record.call_id or record.decision_id, "data": call.arguments}
        extend(made, CONTROL, _judged(record))
        denied = action is Action.BLOCK and record.purpose != "query"
        made["severity_id"] = _severity(record) if denied else INFORMATIONAL
        made |= {"status_id": FAILURE if denied else SUCCESS, "message": f"{operation}: {_verdict(record)}"}
        if record.sandbox_id:
            made["resources"] = [resource("sandbox", record.sandbox_id)]
        correlate(made, record.call_id, record.trace_id)
        note(made, decision_id=record.decision_id, purpose=record.purpose, span_id=record.span_id)
        note(made, review_id=record.review_id, agent=record.input.session.agent)
        return made

    def _outcome(self, record: OutcomeRecord, place: Place) -> Event:
        call = self._open.pop(record.decision_id, None) or _Call("", "", "", "", "")
        outcome = record.outcome
        if outcome.kind in NEVER_EXECUTED or outcome.run_ns == 0:
            activity = _ACTIVITIES.get(call.tool, OTHER)
            made = request(record.time_us, place, activity, call.tool or "Call", call.principal, record.session_id)
            made["status_id"] = FAILURE
        else:
            made = _run(record, call, place)
        made |= {"status_code": outcome.kind.value, "message": f"{call.tool or 'Call'}: {outcome.kind}"}
        if outcome.detail:
            made["status_detail"] = outcome.detail
        correlate(made, record.call_id, record.trace_id)
        note(made, decision_id=record.decision_id)
        return made

    def _remember(self, record: DecisionRecord) -> None:
        commands = record.input.call.commands
        program = commands[0].program if commands else ""
        self._open[record.decision_id] = _Call(
            record.principal, record.input.call.tool, program, record.sandbox_id, record.exec_id
        )
        if len(self._open) > _OPEN_CALLS:
            self._open.popitem(last=False)


def broken(place: Place, why: str, time_us: int) -> Event:
    """The finding that ends an export: the record at `place` is not the one that was written."""
    made = event(2004, CREATE, time_us, place)
    made |= {"severity_id": CRITICAL, "is_alert": True, "message": "The audit log is not intact"}
    extend(made, CONTROL, _OBSERVED)
    made["finding_info"] = {
        "uid": f"chain_broken/{place.index}",
        "title": "Audit log not intact",
        "desc": f"record {place.index} {why}",
        "types": ["integrity"],
    }
    return made


def _run(record: OutcomeRecord, call: _Call, place: Place) -> Event:
    """A process that ended; the event tells of its start, too."""
    outcome = record.outcome
    made = event(1007, _TERMINATE, record.time_us, place)
    made |= {"actor": actor(call.principal, record.session_id), "device": device(place)}
    process: Event = {"uid": call.run or record.call_id}
    process |= {"name": call.program} if call.program else {}
    if call.sandbox:
        extend(made, "container", {})
        process["container"] = {"uid": call.sandbox, "runtime": "runsc"}
    made["process"] = process
    duration = outcome.run_ns // 1_000_000
    made |= {"duration": duration, "start_time": made["time"] - duration, "end_time": made["time"]}
    if outcome.exit_code is not None:
        made["exit_code"] = outcome.exit_code
    made["status_id"] = SUCCESS if outcome.kind is OutcomeKind.EXITED and outcome.exit_code == 0 else FAILURE
    made["severity_id"] = HIGH if outcome.kind is OutcomeKind.VIOLATION else INFORMATIONAL
    note(made, signal=outcome.signal, stdout_bytes=outcome.stdout_bytes, stderr_bytes=outcome.stderr_bytes)
    return made


def _violation(record: DecisionRecord, place: Place) -> Event:
    made = event(2004, CREATE, record.time_us, place)
    extend(made, CONTROL, _judged(record))
    seen = record.input.runtime
    made |= {"severity_id": max(_severity(record), HIGH), "is_alert": True}
    made["message"] = f"A running program was ended: {_verdict(record)}"
    made["finding_info"] = {
        "uid": record.decision_id,
        "title": "Running program against the rules",
        "desc": " ".join(filter(None, (seen.event, seen.syscall, seen.path))) if seen is not None else "",
        "types": ["runtime"],
    }
    made["resources"] = [resource("sandbox", record.sandbox_id)]
    correlate(made, record.call_id, record.trace_id)
    note(made, session_id=record.session_id, principal=record.principal)
    return made


def _refusal(record: RefusalRecord, place: Place) -> Event:
    operation, activity = record.tool or record.request or "Call", _ACTIVITIES.get(record.tool, OTHER)
    made = request(record.time_us, place, activity, operation, record.principal, record.session_id)
    extend(made, CONTROL, _UNAUTHORIZED if record.reason == "NOT_PERMITTED" else _REJECTED)
    made |= {"status_id": FAILURE, "status_code": record.reason, "status_detail": record.message}
    made |= {"severity_id": MEDIUM, "count": record.count, "message": f"{operation}: refused, {record.reason}"}
    correlate(made, record.call_id)
    return made


def _review(record: ReviewRecord, place: Place) -> Event:
    made = request(record.time_us, place, UPDATE, f"Review.{record.state}", record.decided_by, record.session_id)
    if control := {"approved": _APPROVED, "rejected": _REJECTED}.get(record.state):
        extend(made, CONTROL, control)
    made |= {"status_id": SUCCESS, "message": f"Review {record.state}"}
    made["resources"] = [resource("review", record.review_id)]
    if record.reason:
        made["status_detail"] = record.reason
    correlate(made, record.call_id)
    note(made, digest=record.digest)
    return made


def _ban(record: BanRecord, place: Place) -> Event:
    lifted = record.state == "lifted"
    activity, operation, severity = (DELETE, "Unban", INFORMATIONAL) if lifted else (CREATE, "Ban", MEDIUM)
    made = request(record.time_us, place, activity, operation, record.decided_by)
    made |= {"status_id": SUCCESS, "severity_id": severity, "message": "Ban lifted" if lifted else "Banned"}
    made["resources"] = [resource("principal", record.principal)]
    if record.agent:
        made["resources"].append(resource("agent", record.agent))
    if record.reason:
        made["status_detail"] = record.reason
    return made


def _session(record: SessionRecord, place: Place) -> Event:
    closed = record.state == "closed"
    activity, operation = (DELETE, "CloseSession") if closed else (CREATE, "CreateSession")
    made = request(record.time_us, place, activity, operation, record.principal, record.session_id)
    made |= {"status_id": SUCCESS, "message": "Session closed" if closed else "Session begun"}
    correlate(made, "", record.trace_id)
    note(made, agent=record.agent, conversation_id=record.conversation_id)
    return made


def _sandbox(record: SandboxRecord, place: Place) -> Event:
    activity = CREATE if record.template else DELETE if record.state in ("deleted", "lost") else UPDATE
    operation, lost = f"Sandbox.{record.state}", record.state == "lost"
    made = request(record.time_us, place, activity, operation, record.principal, record.session_id)
    made |= {"status_id": FAILURE if lost else SUCCESS, "severity_id": MEDIUM if lost else INFORMATIONAL}
    made |= {"message": f"Sandbox {record.state}", "resources": [resource("sandbox", record.sandbox_id)]}
    if record.cause:
        made["status_detail"] = record.cause
    note(made, template=record.template, image_digest=record.image_digest)
    return made


def _usage(record: UsageRecord, place: Place) -> Event:
    made = request(record.time_us, place, UPDATE, "ReportUsage", record.principal, record.session_id)
    made |= {"status_id": SUCCESS, "message": "Usage reported"}
    note(made, **{key: value for key, value in msgspec.structs.asdict(record.usage).items() if value})
    return made


def _daemon(record: DaemonRecord, place: Place) -> Event:
    made = event(6002, _START if record.state == "started" else _STOP, record.time_us, place)
    made |= {"app": product(place), "status_id": SUCCESS, "message": f"OpenSafe {record.state}"}
    note(made, lost_calls=record.lost_calls)
    return made


def _bundle(record: BundleRecord, place: Place) -> Event:
    made = event(5019, _LOG, record.time_us, place)
    if record.state == "activated":
        made |= {"state_id": 2, "state": "Enabled", "status_id": SUCCESS}
    else:
        made |= {"state_id": 99, "state": "Refused", "status_id": FAILURE, "severity_id": MEDIUM}
    made |= {"device": device(place), "message": f"Policy bundle {record.state}"}
    if record.reason:
        made["status_detail"] = record.reason
    note(made, digest=record.digest, revision=record.revision, number=record.number, key=record.key)
    note(made, previous=record.previous)
    return made


def _judged(record: DecisionRecord) -> Event:
    """What policy said, by which rules of which bundle. A question's answer held nobody back."""
    told: Event = {**(_OBSERVED if record.purpose == "query" else _BY_ACTION[record.result.action])}
    if bundle := record.bundles.get("opensafe"):
        told["policy"] = {"name": record.path, "uid": bundle.digest, "version": bundle.revision, "is_applied": True}
    told["authorizations"] = [
        {"decision": hit.action.value, "policy": {"uid": hit.id, "desc": hit.reason}}
        for hit in record.result.deciding()
    ] or [{"decision": record.result.action.value}]
    return told


def _severity(record: DecisionRecord) -> int:
    return max((_SEVERITIES[hit.severity] for hit in record.result.deciding()), default=MEDIUM)


def _verdict(record: DecisionRecord) -> str:
    rules = ", ".join(hit.id for hit in record.result.deciding())
    return f"{record.result.action} ({rules})" if rules else record.result.action.value
