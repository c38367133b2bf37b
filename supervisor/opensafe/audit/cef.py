"""Events in ArcSight's Common Event Format, version 0, for collectors that know no OCSF.

`CEF:0|vendor|product|version|class|name|severity|key=value …`. A line is made of an OCSF event: the same masking, the
same count. Keys and lengths are those of the format's dictionary.
"""

import re
from typing import Final

import msgspec

from .ocsf_event import Event

_SEVERITY: Final = {1: 2, 2: 4, 3: 6, 4: 8, 5: 10}
_ACTS: Final = {1: "allowed", 2: "denied", 3: "observed", 99: "review"}
_OUTCOMES: Final = {1: "success", 2: "failure"}
_MAX: Final = 1023
#: What a receiver might end a line at, beside the two that the format has escapes for.
_CONTROL: Final = re.compile("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")


def line(event: Event) -> str:
    """The line of an event, without newline."""
    metadata = event["metadata"]
    product = metadata["product"]
    signature = f"{event['class_uid']}:{event['activity_id']}"
    severity = str(_SEVERITY[event["severity_id"]])
    header = (
        product["vendor_name"],
        product["name"],
        product.get("version", ""),
        signature,
        event["message"],
    )
    extension = " ".join(f"{key}={_value(str(value))}" for key, value in _extension(event).items() if value != "")
    return "|".join(("CEF:0", *map(_header, header), severity, extension))


def _extension(event: Event) -> dict[str, str | int]:
    metadata, unmapped = event["metadata"], event["unmapped"]
    actor = event.get("actor", {})
    api = event.get("api", {})
    arguments = api.get("request", {}).get("data")
    rules = ", ".join(one["policy"]["uid"] for one in event.get("authorizations", ()) if "policy" in one)
    finding = event.get("finding_info", {})
    found: dict[str, str | int] = {
        "rt": event["time"],
        "externalId": unmapped["record"]["index"],
        "act": _ACTS.get(event.get("action_id", 0), ""),
        "outcome": _OUTCOMES.get(event.get("status_id", 0), ""),
        "reason": event.get("status_detail", "") or finding.get("desc", ""),
        "suser": actor.get("user", {}).get("name", ""),
        "dproc": event.get("process", {}).get("name", ""),
        "cat": api.get("operation", ""),
        "msg": msgspec.json.encode(arguments).decode() if arguments else "",
    }
    labelled = (
        ("leaf", unmapped["record"]["leaf"]),
        ("session", actor.get("session", {}).get("uid", "") or unmapped.get("session_id", "")),
        ("call", metadata.get("correlation_uid", "")),
        ("rules", rules),
        ("bundle", event.get("policy", {}).get("version", "")),
        ("trace", event.get("trace", {}).get("uid", "") or unmapped.get("trace_id", "")),
    )
    for number, (label, value) in enumerate(labelled, start=1):
        if value:
            found |= {f"cs{number}Label": label, f"cs{number}": value}
    if "connection_info" in event:
        found |= _connection(event)
    if "exit_code" in event:
        found |= {"cn1Label": "exit code", "cn1": event["exit_code"]}
    return found


def _connection(event: Event) -> dict[str, str | int]:
    source, target, traffic = event["src_endpoint"], event["dst_endpoint"], event.get("traffic", {})
    return {
        "shost": source.get("uid", ""),
        "dhost": target.get("hostname", "") or event.get("query", {}).get("hostname", ""),
        "dst": target.get("ip", ""),
        "dpt": target.get("port", ""),
        "proto": event["connection_info"].get("protocol_name", "").upper(),
        "app": event["unmapped"].get("layer", ""),
        "requestMethod": event["unmapped"].get("method", ""),
        "out": traffic.get("bytes_out", ""),
        "in": traffic.get("bytes_in", ""),
        "start": event.get("start_time", ""),
        "end": event.get("end_time", ""),
        "cnt": event["count"],
    }


def _header(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("|", "\\|").replace("\r", " ").replace("\n", " ")
    return _CONTROL.sub("?", escaped)


def _value(text: str) -> str:
    escaped = text[:_MAX].replace("\\", "\\\\").replace("=", "\\=").replace("\r", "\\r").replace("\n", "\\n")
    return _CONTROL.sub("?", escaped)
