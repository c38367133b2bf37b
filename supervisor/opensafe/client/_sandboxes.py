"""Messages of sandbox.proto and our own types."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from opensafe._proto.v1 import sandbox_pb2
from opensafe.errors import InvalidArgument, OpenSafeError

from ._types import Lease, SandboxInfo, SandboxPage, SandboxSize

_ACTIONS: Final = {"delete": sandbox_pb2.IDLE_ACTION_DELETE, "pause": sandbox_pb2.IDLE_ACTION_PAUSE}
_ACTIONS_BACK: Final = {number: name for name, number in _ACTIONS.items()} | {sandbox_pb2.IDLE_ACTION_UNSPECIFIED: ""}


def create_request(
    session_id: str,
    template: str,
    size: SandboxSize,
    labels: Mapping[str, str],
    lease: Lease,
    network: str,
    *,
    require_warm: bool,
) -> sandbox_pb2.CreateSandboxRequest:
    """Raises InvalidArgument for what the message can't hold."""
    action = _ACTIONS.get(lease.idle_action)
    if action is None:
        raise InvalidArgument("there is no such idle action", value=lease.idle_action, limit=" or ".join(_ACTIONS))
    try:
        return sandbox_pb2.CreateSandboxRequest(
            session_id=session_id,
            template=template,
            limits=sandbox_pb2.SandboxLimits(**msgspec.structs.asdict(size)),
            labels=labels,
            ttl_s=lease.ttl_s,
            idle_timeout_s=lease.idle_timeout_s,
            idle_action=action,
            network=network,
            require_warm=require_warm,
        )
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"the sandbox can't be asked for: {error}") from error


def list_request(
    labels: Mapping[str, str] | None, states: Sequence[str], session_id: str, page_size: int, cursor: str
) -> sandbox_pb2.ListSandboxesRequest:
    """The message of a list's filter and page."""
    return sandbox_pb2.ListSandboxesRequest(
        labels=labels, states=states, session_id=session_id, page_size=page_size, cursor=cursor
    )


def page(message: sandbox_pb2.ListSandboxesResponse) -> SandboxPage:
    """A page."""
    return SandboxPage(sandboxes=tuple(sandbox(one) for one in message.sandboxes), next_cursor=message.next_cursor)


def sandbox(message: sandbox_pb2.Sandbox) -> SandboxInfo:
    """One sandbox. Raises OpenSafeError where its idle action is none of ours."""
    action = _ACTIONS_BACK.get(message.idle_action)
    if action is None:
        raise OpenSafeError("the daemon answered with an unknown idle action", value=message.idle_action)
    return SandboxInfo(
        sandbox_id=message.sandbox_id,
        session_id=message.session_id,
        template=message.template,
        state=message.state,
        created_unix_ns=message.created_unix_ns,
        cause=message.cause,
        image_digest=message.image_digest,
        network=message.network,
        labels=dict(message.labels),
        size=SandboxSize(**{field.name: value for field, value in message.limits.ListFields()}),
        expires_unix_ns=message.expires_unix_ns,
        idle_timeout_s=message.idle_timeout_s,
        idle_action=action,
        changed_unix_ns=message.changed_unix_ns,
    )
