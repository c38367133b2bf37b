"""What a sandbox's program did against the rules, as the monitor saw it: a question to policy and its verdict."""

import msgspec

from .decision import Decision
from .policy_input import PolicyInput


class Breach(msgspec.Struct, frozen=True, kw_only=True):
    """exec_id: the call it belongs to, "" for none. revision, digest: of the bundle that judged `input`."""

    sandbox_id: str
    exec_id: str
    trace_id: str
    revision: str
    digest: str
    input: PolicyInput
    result: Decision
