"""Records of connections as OCSF events: 4001 Network Activity, and 4003 DNS Activity for names that were asked for.

A name came from a guest and stands where it is data. What is no address is not passed off as one.
"""

import ipaddress
from typing import Final

from opensafe.model.records import ConnectionRecord

from .ocsf_event import (
    CONTROL,
    FAILURE,
    INFORMATIONAL,
    MEDIUM,
    SUCCESS,
    Event,
    Place,
    actor,
    correlate,
    event,
    extend,
    note,
)

_OPEN, _CLOSE, _RESET, _REFUSE = 1, 2, 3, 5
#: Of DNS: question and answer together. Of a connection: a request inside of it.
_TRAFFIC: Final = 6
_OUTBOUND: Final = 2
_IPV4: Final = 4
_VIRTUAL: Final = 6
_DNS_PORT: Final = 53
_HTTPS: Final = 443
#: RCODEs (RFC 6895) of an answer to a guest, and their captions.
_ANSWERED: Final[Event] = {"rcode_id": 0, "rcode": "NoError"}
_NO_SUCH_NAME: Final[Event] = {"rcode_id": 3, "rcode": "NXDomain"}

_ALLOWED: Final[Event] = {"action_id": 1, "disposition_id": 1}
_BLOCKED: Final[Event] = {"action_id": 2, "disposition_id": 2}
#: Cut: because its call has ended, or because a rule refuses it by now.
_ENDED_WITH_ITS_CALL: Final[Event] = {"action_id": 1, "disposition_id": 21}
_REFUSED_BY_NOW: Final[Event] = {"action_id": 2, "disposition_id": 21}
#: IANA's numbers of protocols.
_PROTOCOLS: Final = {"icmp": 1, "tcp": 6, "udp": 17}
_DIGITS: Final = 3
_POLICY: Final = "opensafe/gate/egress"


def connection(record: ConnectionRecord, place: Place) -> Event:
    """The event of one record."""
    made = _question(record, place) if record.layer == "dns" else _connection(record, place)
    refused = record.state == "refused"
    made["src_endpoint"] = {"uid": record.sandbox_id, "type_id": _VIRTUAL} if record.sandbox_id else {"name": "unknown"}
    extend(made, CONTROL, _judged(record))
    if record.principal or record.session_id:
        extend(made, "host", {"actor": actor(record.principal, record.session_id)})
    made["severity_id"] = MEDIUM if made["action_id"] == _BLOCKED["action_id"] else INFORMATIONAL
    made |= {"status_id": FAILURE if refused else SUCCESS, "status_code": record.state, "count": record.count}
    rules = f" ({', '.join(record.rules)})" if record.rules else ""
    what = ":".join(filter(None, (record.name or record.address, str(record.port or ""))))
    made["message"] = f"{record.layer or 'connection'} {what or 'of a sandbox'}: {record.state}{rules}"
    if record.reason:
        made["status_detail"] = record.reason
    correlate(made, record.call_id, record.trace_id)
    note(made, decision_id=record.decision_id, exec_id=record.exec_id, layer=record.layer, method=record.method)
    return made


def _connection(record: ConnectionRecord, place: Place) -> Event:
    activity = {"allowed": _OPEN, "ended": _CLOSE, "cut": _RESET}.get(record.state, _REFUSE)
    if record.state == "allowed" and record.layer == "http" and record.port == _HTTPS:
        activity = _TRAFFIC
    made = event(4001, activity, record.time_us, place)
    made["dst_endpoint"] = _named(record)
    protocol = record.protocol or "tcp"
    how: Event = {"direction_id": _OUTBOUND, "protocol_name": protocol}
    if protocol in _PROTOCOLS:
        how["protocol_num"] = _PROTOCOLS[protocol]
    elif protocol.isdecimal() and len(protocol) <= _DIGITS:
        how["protocol_num"] = int(protocol)
    if record.layer == "packet":
        how["protocol_ver_id"] = _IPV4
    made["connection_info"] = how
    if record.layer == "http":
        made["app_protocol_name"] = "http"
    if record.state in ("ended", "cut"):
        made["traffic"] = {
            "bytes_out": record.sent,
            "bytes_in": record.received,
            "bytes": record.sent + record.received,
        }
        if record.begun_us:
            begun = min(record.begun_us // 1000, made["time"])
            made |= {"start_time": begun, "end_time": made["time"], "duration": made["time"] - begun}
    return made


def _question(record: ConnectionRecord, place: Place) -> Event:
    made = event(4003, _TRAFFIC, record.time_us, place)
    made["query"] = {"hostname": record.name}
    made["connection_info"] = {"direction_id": _OUTBOUND}
    made["dst_endpoint"] = {"svc_name": "dns", "port": _DNS_PORT}
    if record.state == "allowed":
        made |= _ANSWERED
    elif record.sandbox_id:  # else it is an answer of the world's that was not passed on
        made |= _NO_SUCH_NAME
    return made


def _named(record: ConnectionRecord) -> Event:
    """Where it was to go."""
    made: Event = {"hostname": record.name} if record.name else {}
    if _is_address(record.address):
        made["ip"] = record.address
    made = made or {"name": "unknown"}
    if record.port is not None and record.port < 1 << 16:
        made["port"] = record.port
    return made


def _judged(record: ConnectionRecord) -> Event:
    """The verdict, and the rules of the bundle or of the packet filter that it came from."""
    if record.state == "cut":
        told = dict(_REFUSED_BY_NOW if record.rules else _ENDED_WITH_ITS_CALL)
    else:
        told = dict(_BLOCKED if record.state == "refused" else _ALLOWED)
    if record.revision:
        told["policy"] = {"name": _POLICY, "version": record.revision, "is_applied": True}
    if record.rules and record.layer == "packet":
        told["firewall_rule"] = {"uid": record.rules[0], "type": "packet"}
    if record.rules:
        decision = "block" if told["action_id"] == _BLOCKED["action_id"] else "allow"
        told["authorizations"] = [{"decision": decision, "policy": {"uid": one}} for one in record.rules]
    return told


def _is_address(text: str) -> bool:
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False
