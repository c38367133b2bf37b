"""Between the messages of sandbox.proto and the model. What a request holds is checked here, by type and bound."""

from typing import Any, Final

import msgspec

from opensafe._proto.v1 import sandbox_pb2
from opensafe.control.sandbox_list import Filter
from opensafe.control.sandboxes import Wanted
from opensafe.state.rows import SandboxRow

from . import convert

_ACTIONS: Final = {
    "": sandbox_pb2.IDLE_ACTION_UNSPECIFIED,
    "delete": sandbox_pb2.IDLE_ACTION_DELETE,
    "pause": sandbox_pb2.IDLE_ACTION_PAUSE,
}
_ACTIONS_BACK: Final = {
    sandbox_pb2.IDLE_ACTION_UNSPECIFIED: "delete",
    sandbox_pb2.IDLE_ACTION_DELETE: "delete",
    sandbox_pb2.IDLE_ACTION_PAUSE: "pause",
}

_BOUNDS: Final = "Bounds are in docs/configuration.md and docs/sandboxes.md."


def wanted(message: sandbox_pb2.CreateSandboxRequest) -> Wanted:
    """A sandbox that is asked for. Raises InvalidArgument naming field and bound."""
    asked: dict[str, Any] = {name: getattr(message, name) for name in ("ttl_s", "idle_timeout_s", "require_warm")}
    asked |= {name: getattr(message, name) for name in ("template", "network") if getattr(message, name)}
    asked["labels"] = dict(message.labels)
    asked["limits"] = {field.name: value for field, value in message.limits.ListFields()}
    # An unknown number has no name, which the type then refuses.
    asked["idle_action"] = _ACTIONS_BACK.get(message.idle_action, str(message.idle_action))
    return convert.checked("sandbox", asked, Wanted, remedy=_BOUNDS)


def filtered(message: sandbox_pb2.ListSandboxesRequest) -> Filter:
    """What a list is to show. Raises InvalidArgument naming field and bound."""
    asked: dict[str, Any] = {"labels": dict(message.labels), "session_id": message.session_id}
    if message.states:
        asked["states"] = list(message.states)
    return convert.checked("sandbox", asked, Filter, remedy=_BOUNDS)


def sandbox(row: SandboxRow) -> sandbox_pb2.Sandbox:
    """A sandbox as the index knows it."""
    return sandbox_pb2.Sandbox(
        sandbox_id=row.sandbox_id,
        session_id=row.session_id,
        template=row.template,
        state=row.state,
        created_unix_ns=row.created_us * 1000,
        cause=row.cause,
        image_digest=row.image_digest,
        network=row.network,
        labels=row.labels,
        limits=sandbox_pb2.SandboxLimits(**msgspec.structs.asdict(row.limits)) if row.limits else None,
        expires_unix_ns=row.expires_us * 1000,
        idle_timeout_s=row.idle_timeout_s,
        idle_action=_ACTIONS[row.idle_action],
        changed_unix_ns=row.changed_us * 1000,
    )
