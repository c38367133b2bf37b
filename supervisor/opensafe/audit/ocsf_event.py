"""What every OCSF event of ours is made of: classification, metadata, actor, verdict, and the record's place."""

from typing import Any, Final

import msgspec

VERSION: Final = "1.8.0"
#: `class_uid` to the captions of class and category.
_CLASSES: Final = {
    1007: ("Process Activity", "System Activity"),
    2004: ("Detection Finding", "Findings"),
    4001: ("Network Activity", "Network Activity"),
    4003: ("DNS Activity", "Network Activity"),
    5019: ("Device Config State Change", "Discovery"),
    6002: ("Application Lifecycle", "Application Activity"),
    6003: ("API Activity", "Application Activity"),
}

CREATE, READ, UPDATE, DELETE, OTHER = 1, 2, 3, 4, 99
SUCCESS, FAILURE = 1, 2
#: The profile of verdicts.
CONTROL: Final = "security_control"
INFORMATIONAL, MEDIUM, HIGH, CRITICAL = 1, 3, 4, 5

Event = dict[str, Any]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a record stands. chain: the name of the log, as its checkpoints have it; signed: how many records the last
    one covers; version: of the daemon that wrote it. What is not known is "" or 0.
    """

    index: int
    leaf: str
    prev: str
    chain: str = ""
    signed: int = 0
    version: str = ""


def event(class_uid: int, activity: int, time_us: int, place: Place) -> Event:
    """An event of that class, with all that every one needs."""
    class_name, category = _CLASSES[class_uid]
    record: Event = {"index": place.index, "leaf": place.leaf, "prev": place.prev}
    record |= {"chain": place.chain} if place.chain else {}
    record |= {"checkpoint": place.signed} if place.index < place.signed else {}
    return {
        "class_uid": class_uid,
        "class_name": class_name,
        "category_uid": class_uid // 1000,
        "category_name": category,
        "activity_id": activity,
        "type_uid": class_uid * 100 + activity,
        "time": time_us // 1000,
        "severity_id": INFORMATIONAL,
        "metadata": {
            "version": VERSION,
            "product": product(place),
            "profiles": [],
            "uid": place.leaf,
            "sequence": place.index,
            "log_name": "audit",
            "logged_time": time_us // 1000,
        },
        "unmapped": {"record": record},
    }


def request(time_us: int, place: Place, activity: int, operation: str, principal: str, session: str = "") -> Event:
    """An event of class 6003. Who asks is known by the socket, so that is its endpoint."""
    made = event(6003, activity, time_us, place)
    if activity == OTHER:
        made["activity_name"] = "Execute"
    made["actor"] = actor(principal, session)
    made["api"] = {"operation": operation, "service": {"name": "opensafe"}}
    made["src_endpoint"] = {"svc_name": f"principals/{principal}" if principal else "opensafe"}
    return made


def extend(made: Event, profile: str, attributes: Event) -> None:
    """Add attributes of a profile, which the metadata has to name."""
    made |= attributes
    profiles: list[str] = made["metadata"]["profiles"]
    if profile not in profiles:
        profiles.append(profile)


def correlate(made: Event, call: str, trace: str = "") -> None:
    """Bind the event to a call and a trace, as far as there are any."""
    if call:
        made["metadata"]["correlation_uid"] = call
    if trace and made["class_uid"] == 6003:  # the one class of ours with that profile
        extend(made, "trace", {"trace": {"uid": trace}})
    else:
        note(made, trace_id=trace)


def note(made: Event, **more: str | int | None) -> None:
    """Keep what OCSF has no place for; empty values are left out."""
    made["unmapped"] |= {key: value for key, value in more.items() if value not in ("", None)}


def actor(principal: str, session: str = "") -> Event:
    """Who did it: a principal, or the daemon itself."""
    made: Event = {"user": {"name": principal}} if principal else {"app_name": "opensafe"}
    return made | ({"session": {"uid": session}} if session else {})


def resource(kind: str, uid: str) -> Event:
    """Something that the event is about."""
    return {"type": kind, "uid": uid}


def device(place: Place) -> Event:
    """The host, of which the log's name is all that is known."""
    return {"type_id": 0, "uid": place.chain or "opensafe"}


def product(place: Place) -> Event:
    """OpenSafe, in the version that wrote the record."""
    made = {"name": "OpenSafe", "vendor_name": "OpenSafe"}
    return made | ({"version": place.version} if place.version else {})
