"""What a call is to policy, and what it becomes when policy allows it.

Both are functions of the call and of the verdict alone, so that a recorded decision can be judged again and the
program that ran be recomputed from it.
"""

import msgspec

from opensafe.model.calls import ToolCall
from opensafe.model.decision import Grant
from opensafe.model.facts import Facts
from opensafe.model.limits import CallLimits
from opensafe.model.policy_input import CallInput
from opensafe.model.sandbox import OWN_UID, Asked, Launch, User
from opensafe.normalize.tool_spec import ToolSpec
from opensafe.normalize.tools import Registry


def call_input(
    call: ToolCall,
    facts: Facts,
    spec: ToolSpec | None = None,
    *,
    stdin: bool = False,
    asked: Asked = Asked(),  # noqa: B008 - frozen
    user: User | None = None,
    description_digest: str = "",
    pinned_digest: str = "",
) -> CallInput:
    """The part of the question that is read off the call: the same for a recorded call judged again.

    spec: the tool's, where it may be a site's. The others don't show in the arguments: whether the client streams
    standard input, what it asks of the run, who the user is that it asks to run as, and the digests it states of
    the tool's description. What the site pinned takes the place of what the client says was approved.
    """
    return CallInput(
        id=call.call_id,
        tool=call.tool,
        arguments=call.sealed,
        digest=call.digest,
        stdin=stdin,
        asked=asked,
        user=user,
        risk=spec.risk if spec else "",
        untrusted=spec.untrusted if spec else False,
        server=spec.server if spec else "",
        description_digest=description_digest,
        pinned_digest=(spec.pinned if spec else "") or pinned_digest,
        **{name: getattr(facts, name) for name in facts.__struct_fields__},
    )


def build_launch(
    registry: Registry,
    call: ToolCall,
    grant: Grant,
    sandbox_id: str,
    exec_id: str,
    asked: Asked = Asked(),  # noqa: B008 - frozen
    user: User | None = None,
) -> Launch:
    """What an allowed call runs: a function of what is on record, so that it can be recomputed in replay.

    Of each limit it has the smallest: granted, asked for, or the call's own `timeout_ms`. Raises ValueError where that
    lies below the bounds, and where `user` is not whom the call names or not granted.
    """
    if registry.user(call) not in ((user.name, str(user.uid)) if user else ("", str(OWN_UID))):
        raise ValueError(f"the call asks to run as {registry.user(call)!r}, which is not {user and user.name!r}")
    if user is not None and user.granted_as not in grant.users:
        raise ValueError(f"the user {user.granted_as} is not granted")
    timeout_ms = call.sealed.get("timeout_ms")
    limits = msgspec.structs.replace(
        grant.limits,
        wall_ms=_least(grant.limits.wall_ms, asked.wall_ms, timeout_ms if isinstance(timeout_ms, int) else 0),
        output_bytes=_least(grant.limits.output_bytes, asked.output_bytes),
    )
    return Launch(
        sandbox_id=sandbox_id,
        exec_id=exec_id,
        program=registry.program(call, grant, user),
        profile=grant.seccomp,
        limits=msgspec.convert(msgspec.to_builtins(limits), CallLimits),
        terminal=asked.terminal,
        user=user,
    )


def _least(granted: int, *asked: int) -> int:
    """The smallest of what was granted and what was asked for, which is 0 where nothing was."""
    return min((granted, *(limit for limit in asked if limit)))
