"""The audit log's records by kind: what each carries beside `index` and `prev`.

Times are UTC microseconds since the epoch: nanoseconds would not fit the 53 bits of a canonical integer. The names
follow OPA's decision log where it has one (`decision_id`, `bundles`, `path`, `input`, `result`, `metrics`,
`trace_id`, `span_id`). A record is built here, appended, and folded into state; nothing else defines its form.
"""

import msgspec

from .decision import Decision
from .limits import SandboxLimits
from .outcome import Outcome
from .policy_input import PolicyInput


class _Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    time_us: int


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """The bundle a decision was made on."""

    revision: str
    digest: str


class DecisionRecord(_Record, frozen=True, tag="decision"):
    """A verdict, before anything runs. `subject` is the digest of what it authorises ("" unless allow).

    purpose: `call` (runs here), `sandbox`, `permit` (runs elsewhere), `query` (runs nowhere).
    review_id, expires_us: set where the verdict is review (the parked call) or a permit was given.
    """

    decision_id: str
    purpose: str
    principal: str
    session_id: str
    call_id: str
    sandbox_id: str
    exec_id: str
    bundles: dict[str, Bundle]
    path: str
    input: PolicyInput
    result: Decision
    subject: str
    metrics: dict[str, int]
    trace_id: str
    span_id: str
    review_id: str = ""
    permit: str = ""
    expires_us: int = 0


class OutcomeRecord(_Record, frozen=True, tag="outcome"):
    """How a decided call ended."""

    decision_id: str
    session_id: str
    call_id: str
    outcome: Outcome
    trace_id: str = ""


class RefusalRecord(_Record, frozen=True, tag="refusal"):
    """A request that never came before policy: unknown tool, schema violation, cap."""

    principal: str
    session_id: str
    call_id: str
    tool: str
    reason: str
    message: str


class ReviewRecord(_Record, frozen=True, tag="review"):
    """A reviewer's verdict or an expiry. state: approved, rejected, expired, void."""

    review_id: str
    session_id: str
    call_id: str
    state: str
    decided_by: str = ""
    digest: str = ""
    reason: str = ""


class SessionRecord(_Record, frozen=True, tag="session"):
    """A session began or (state `closed`) ended."""

    session_id: str
    principal: str
    state: str
    agent: str = ""
    conversation_id: str = ""
    trace_id: str = ""


class SandboxRecord(_Record, frozen=True, tag="sandbox"):
    """A sandbox runs, or ended (`state` is then its cause: deleted, failed, lost: …)."""

    sandbox_id: str
    session_id: str
    principal: str
    state: str
    template: str = ""
    limits: SandboxLimits | None = None


class DaemonRecord(_Record, frozen=True, tag="daemon"):
    """The front started or stopped. On start: how many unfinished calls it found and ended as lost."""

    state: str
    version: str
    bundles: dict[str, Bundle]
    lost_calls: int = 0


class TornRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="torn"):
    """Accounts for a fragment that a crash left (model/chain.py)."""

    fragment_sha256: str


Record = (
    DecisionRecord
    | OutcomeRecord
    | RefusalRecord
    | ReviewRecord
    | SessionRecord
    | SandboxRecord
    | DaemonRecord
    | TornRecord
)
