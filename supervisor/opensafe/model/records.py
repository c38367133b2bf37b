"""The audit log's records by kind: what each carries beside `index` and `prev`.

Times are UTC microseconds since the epoch: nanoseconds would not fit the 53 bits of a canonical integer. The names
follow OPA's decision log where it has one (`decision_id`, `bundles`, `path`, `input`, `result`, `metrics`,
`trace_id`, `span_id`). A record is built here, appended, and folded into state; nothing else defines its form.
"""

from typing import Final, get_args

import msgspec

from .connection import used
from .decision import Action, Decision, RuleHit
from .limits import SandboxLimits
from .outcome import Outcome
from .policy_input import PolicyInput
from .usage import Limits, Usage


class _Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """masked: JSON pointers to what audit/masked.py took secrets out of; absent from a record that had none."""

    time_us: int
    masked: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """The bundle a decision was made on."""

    revision: str
    digest: str


class DecisionRecord(_Record, frozen=True, tag="decision"):
    """A verdict, before anything runs. `subject` is the digest of what it authorises ("" unless allow).

    purpose: `call` (runs here), `sandbox`, `permit` (runs elsewhere), `query` (runs nowhere), `runtime` (what the
    monitor saw a program do, when it was refused: its call or sandbox was ended).
    review_id, expires_us: set where the verdict is review (the call is parked, or its permit) or a permit was given.
    effects: what running the call does, as model/history.py reads it from the facts.
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
    effects: tuple[str, ...] = ()

    @property
    def counted(self) -> bool:
        """Whether it counts as a call: an approved call is the parked one, judged again."""
        return self.purpose in ("call", "permit") and self.input.approval is None


class OutcomeRecord(_Record, frozen=True, tag="outcome"):
    """How a decided call ended. usage: what it used up beside the call itself, as the daemon observed it."""

    decision_id: str
    session_id: str
    call_id: str
    outcome: Outcome
    trace_id: str = ""
    usage: Usage | None = None


class UsageRecord(_Record, frozen=True, tag="usage"):
    """What a client says it used up elsewhere: it adds to what the daemon observed."""

    session_id: str
    principal: str
    usage: Usage


class RefusalRecord(_Record, frozen=True, tag="refusal"):
    """A request that never came before policy: unknown tool, schema violation, cap, a decision not permitted.

    request: what was asked for where it was no call to run here (Decide, Begin, ApproveReview, Ban …). count: how many
    refusals of this principal the record stands for; more than one where they came too fast to be kept apart.
    """

    principal: str
    session_id: str
    call_id: str
    tool: str
    reason: str
    message: str
    request: str = ""
    count: int = 1


class ReviewRecord(_Record, frozen=True, tag="review"):
    """A reviewer's verdict or an expiry. state: seconded (a first approval of two), approved, rejected, expired, void.

    changes: with an approval, how many calls may have changed the workspace since the call was parked.
    """

    review_id: str
    session_id: str
    call_id: str
    state: str
    decided_by: str = ""
    digest: str = ""
    reason: str = ""
    changes: int = 0


class BanRecord(_Record, frozen=True, tag="ban"):
    """A principal, or one agent name of it (`agent` not ""), was banned or (state `lifted`) no longer is."""

    principal: str
    agent: str
    state: str
    decided_by: str
    reason: str = ""


class SessionRecord(_Record, frozen=True, tag="session"):
    """A session began or (state `closed`) ended."""

    session_id: str
    principal: str
    state: str
    agent: str = ""
    conversation_id: str = ""
    trace_id: str = ""
    limits: Limits = Limits()


class SandboxRecord(_Record, frozen=True, tag="sandbox"):
    """A sandbox was made (`template` is then not ""), changed its state, or had its lease renewed.

    state: running, paused, deleting, deleted or lost. cause: why, in few words; "" leaves the one before. expires_us:
    the lease's end where it is new, else 0. idle_action: pause or delete, `idle_timeout_s` seconds after the last call.
    """

    sandbox_id: str
    session_id: str
    principal: str
    state: str
    cause: str = ""
    expires_us: int = 0
    template: str = ""
    image_digest: str = ""
    network: str = ""
    limits: SandboxLimits | None = None
    labels: dict[str, str] = {}
    idle_timeout_s: int = 0
    idle_action: str = ""


class DaemonRecord(_Record, frozen=True, tag="daemon"):
    """The front started or stopped. On start: how many unfinished calls it found and ended as lost."""

    state: str
    version: str
    bundles: dict[str, Bundle]
    lost_calls: int = 0


class BundleRecord(_Record, frozen=True, tag="bundle"):
    """A bundle was put in place, and in force (`activated`) or not (`refused`, with the reason), or its copy `removed`.

    Of an activation: its number, revision and the id of the key that signed it; previous: the revision before, "" for
    the first of a log. Of a refusal: the digest, "" where there was nothing to read. Of a removal: the digest.
    """

    state: str
    digest: str
    number: int = 0
    revision: str = ""
    key: str = ""
    previous: str = ""
    reason: str = ""


class CandidateRecord(_Record, frozen=True, tag="candidate"):
    """A bundle began (`started`) or ended (`stopped`) to judge along in shadow. With its end: what came of it."""

    state: str
    candidate: Bundle
    principal: str
    evaluated: int = 0
    differed: int = 0
    dropped: int = 0


class ShadowRecord(_Record, frozen=True, tag="shadow"):
    """The candidate in shadow says another action. enforced: what holds. rules: what decides on the candidate."""

    decision_id: str
    session_id: str
    candidate: Bundle
    enforced: Action
    action: Action
    rules: tuple[RuleHit, ...]


class ConnectionRecord(_Record, frozen=True, tag="connection"):
    """What became of a connection or a DNS question of a sandbox: the fields are model/connection.py's.

    It stands under the decision whose call had the grant; `decision_id` is "" where none lived there.
    """

    state: str
    sandbox_id: str = ""
    exec_id: str = ""
    decision_id: str = ""
    call_id: str = ""
    session_id: str = ""
    principal: str = ""
    trace_id: str = ""
    layer: str = ""
    protocol: str = ""
    name: str = ""
    port: int | None = None
    address: str = ""
    method: str = ""
    rules: tuple[str, ...] = ()
    reason: str = ""
    begun_us: int = 0
    sent: int = 0
    received: int = 0
    count: int = 1
    revision: str = ""

    @property
    def usage(self) -> Usage | None:
        """What it used up of its session's budget."""
        return used(self.state, self.layer, self.sent, self.received)


class TornRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="torn"):
    """Accounts for a fragment that a crash left (model/chain.py)."""

    fragment_sha256: str


Record = (
    DecisionRecord
    | OutcomeRecord
    | UsageRecord
    | RefusalRecord
    | ReviewRecord
    | BanRecord
    | SessionRecord
    | SandboxRecord
    | DaemonRecord
    | BundleRecord
    | CandidateRecord
    | ShadowRecord
    | ConnectionRecord
    | TornRecord
)

#: Of a line of the log. Raises msgspec.DecodeError, RecursionError.
decode: Final = msgspec.json.Decoder(Record).decode
#: The kinds, as they stand in the log.
KINDS: Final = tuple(str(kind.__struct_config__.tag) for kind in get_args(Record))
