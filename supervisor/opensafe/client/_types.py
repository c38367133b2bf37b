"""What the daemon answers, as frozen types. Times are in nanoseconds, points in time since the Unix epoch.

These are not the generated messages, so that a caller never holds a mutable answer and the wire can change
beneath.
"""

from typing import Any

import msgspec

from opensafe.model.decision import Action, RuleHit
from opensafe.model.explanation import RuleNote
from opensafe.model.outcome import Outcome


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What policy said of one call, with the ids that join it to the audit log and the trace.

    evaluation_ns: the evaluation alone. decision_ns: from the request's arrival to the durable record.
    review_id: with REVIEW only.
    """

    decision_id: str
    action: Action
    rules: tuple[RuleHit, ...] = ()
    bundle_revision: str = ""
    evaluation_ns: int = 0
    decision_ns: int = 0
    trace_id: str = ""
    review_id: str = ""

    def deciding(self) -> tuple[RuleHit, ...]:
        """The rules whose action is the verdict's, in order of id."""
        return tuple(sorted((rule for rule in self.rules if rule.action == self.action), key=lambda rule: rule.id))


class SandboxSize(msgspec.Struct, frozen=True, kw_only=True):
    """Limits to ask for. 0 leaves the template's default."""

    memory_bytes: int = 0
    pids: int = 0
    cpu_millis: int = 0
    workspace_bytes: int = 0
    tmp_bytes: int = 0
    shm_bytes: int = 0
    root_overlay_bytes: int = 0


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """How long a sandbox lives, in seconds. ttl_s: 0 for as long as the site allows. idle_timeout_s: 0 for never.

    idle_action: what follows that time without a running call, `delete` or `pause`.
    """

    ttl_s: int = 0
    idle_timeout_s: int = 0
    idle_action: str = "delete"


class SandboxInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One sandbox. state: running, paused, deleting, deleted or lost; `cause` says why.

    image_digest: of the image's tree, as it was judged. idle_action: "" where there is no idle time.
    """

    sandbox_id: str
    session_id: str
    template: str
    state: str
    created_unix_ns: int
    cause: str = ""
    image_digest: str = ""
    network: str = ""
    labels: dict[str, str] = {}
    size: SandboxSize = SandboxSize()
    expires_unix_ns: int = 0
    idle_timeout_s: int = 0
    idle_action: str = ""
    changed_unix_ns: int = 0


class SandboxPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a list; `next_cursor` is "" on the last."""

    sandboxes: tuple[SandboxInfo, ...]
    next_cursor: str


class CreatedSandbox(msgspec.Struct, frozen=True, kw_only=True):
    """A sandbox that was just made, the verdict that allowed it, and the time it took.

    warm: it came out of the pool; claim_ns is then the part of that time that the claim took.
    """

    sandbox: SandboxInfo
    verdict: Verdict
    create_ns: int
    warm: bool = False
    claim_ns: int = 0

    @property
    def sandbox_id(self) -> str:
        """The sandbox's id."""
        return self.sandbox.sandbox_id


class RunLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits to ask for of one call. 0: not asked for. What policy granted holds where it is less."""

    wall_ms: int = 0
    output_bytes: int = 0


class CallInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One call as the daemon lists it. state: parked, running or ended; `outcome` with ended, `review_id` with parked.

    retained_from, retained_to: which bytes of its output an attach gets now.
    """

    session_id: str
    sandbox_id: str
    call_id: str
    tag: str
    tool: str
    state: str
    decision_id: str
    decided_unix_ns: int
    outcome: Outcome | None = None
    retained_from: int = 0
    retained_to: int = 0
    terminal: bool = False
    review_id: str = ""


class CallPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some calls of a session, the latest first. next_cursor: what to ask for the next page with, "" after the last."""

    calls: tuple[CallInfo, ...]
    next_cursor: str


class Permit(msgspec.Struct, frozen=True, kw_only=True):
    """Leave to run one call elsewhere, once. `permit` is "" unless the verdict allows.

    outcome: how a call that was parked ended without a permit, None while it waits.
    """

    verdict: Verdict
    permit: str
    expires_unix_ns: int
    outcome: Outcome | None = None


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """One parked call. state: pending, approved, rejected, expired or void.

    arguments: as sealed, bulk content replaced by its size and SHA-256; None in a list where they are large.
    digest: what an approval is bound to. seconded_by: who approved already where two must. taints: what was observed
    of its session and sandbox. workspace_changes: calls since it was parked that may have changed its workspace.
    stdin: standard input is streamed into it, which the digest does not cover. elsewhere: what waits is a permit for a
    tool that runs elsewhere; description_digest: what its client was shown of that tool's description.
    """

    review_id: str
    state: str
    principal: str
    session_id: str
    sandbox_id: str
    call_id: str
    tool: str
    arguments: dict[str, Any] | None
    digest: str
    rules: tuple[RuleHit, ...]
    created_unix_ns: int
    expires_unix_ns: int
    decided_by: str = ""
    decided_reason: str = ""
    approvals_needed: int = 1
    seconded_by: str = ""
    taints: tuple[str, ...] = ()
    workspace_changes: int = 0
    stdin: bool = False
    elsewhere: bool = False
    description_digest: str = ""


class Ban(msgspec.Struct, frozen=True, kw_only=True):
    """A ban in force; agent "" is the whole principal."""

    principal: str
    agent: str
    banned_unix_ns: int
    decided_by: str
    reason: str


class BanEffect(msgspec.Struct, frozen=True, kw_only=True):
    """What a new ban ended: running calls, and parked ones, which are void."""

    ended_calls: int
    voided_reviews: int


class SelfTest(msgspec.Struct, frozen=True, kw_only=True):
    """One check of the daemon's start: what was tried in a sandbox, and the control beside it."""

    name: str
    refused: bool
    control_succeeded: bool
    answer: str
    control_answer: str


class BundleRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle that was not put in force. digest: "" where there was nothing to read."""

    digest: str
    reason: str
    unix_ns: int


class BundleSettled(msgspec.Struct, frozen=True, kw_only=True):
    """How a bundle put in place ended: in force (activated) or refused, with the reason. sequence grows with each."""

    sequence: int
    activated: bool
    digest: str
    number: int
    revision: str
    reason: str
    took_ms: int


class RuleList(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a bundle: for each part of each a note, in order of id, file and line."""

    revision: str
    notes: tuple[RuleNote, ...]


class PoolState(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the pool: sandboxes to be kept ready, and those that are.

    failures: makes that failed in a row; then `error` is the last, and the next try is `pause_s` seconds away.
    """

    principal: str
    template: str
    wanted: int
    ready: int
    failures: int
    error: str
    pause_s: int


class ShipState(msgspec.Struct, frozen=True, kw_only=True):
    """One destination of checkpoints. size, time_us: of the last that it took, 0 for none since the daemon's start.

    failures: tries that failed in a row; then `error` is the last. dropped: checkpoints that it will not get.
    """

    destination: str
    size: int
    time_us: int
    failures: int
    error: str
    dropped: int


class DaemonStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the daemon knows of itself. removed_at_start: what an earlier one had left behind.

    bundle_refused: what lies at bundle_path is not in force. helper_revision: "" while the helper has another one.
    pool: the caller's own entries; all of them for operators and auditors. sandbox_cpu_ns: of all sandboxes since the
    daemon's start; sandbox_memory_bytes: now. These and what the host has are None for other roles.
    roles: the caller's.
    """

    version: str
    bundle_revision: str
    bundle_digest: str
    runsc_version: str
    runsc_platform: str
    checks: tuple[SelfTest, ...]
    ledger_size: int
    audit_size: int
    audit_head: str
    append_only: bool
    sandboxes: int
    programs: int
    removed_at_start: tuple[str, ...]
    bundle_number: int = 0
    bundle_key: str = ""
    trusted_keys: tuple[str, ...] = ()
    bundle_path: str = ""
    helper_revision: str = ""
    bundle_refused: bool = False
    last_refusal: BundleRefusal | None = None
    pool: tuple[PoolState, ...] = ()
    checkpoint_size: int = 0
    checkpoint_us: int = 0
    checkpoint_failure: str = ""
    ships: tuple[ShipState, ...] = ()
    self_test_unix_ns: int = 0
    sandbox_cpu_ns: int | None = None
    sandbox_memory_bytes: int | None = None
    host_cpus: int | None = None
    host_memory_bytes: int | None = None
    roles: tuple[str, ...] = ()


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the audit log, byte for byte, with its index and its RFC 6962 leaf hash (hexadecimal)."""

    index: int
    leaf: str
    line: bytes


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """Records that match, the newest first. next_before: where the next page goes on, 0 where there is none."""

    records: tuple[AuditRecord, ...]
    next_before: int


class AuditFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that should not be. where: audit, ledger or checkpoint; index: of the record, entry or checkpoint."""

    kind: str
    where: str
    index: int
    message: str


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was verified. head: leaf hash of the last record; bytes: of log and ledger together.

    key: that checkpoints had to be signed by, "" where there was none. checkpoints: how many the log was found as.
    signed: how many records the largest of them covers. findings: the first 1000 of findings_total.
    """

    ok: bool
    records: int
    ledger_entries: int
    head: str
    bytes: int
    decisions: int
    executions: int
    key: str
    checkpoints: int
    signed: int
    findings: tuple[AuditFinding, ...]
    findings_total: int
