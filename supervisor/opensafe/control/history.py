"""What policy is told of the past: usage against limits, windows, taints, bans; and what calls wrote, for the facts.

All of it is read from the index, which has every record from the moment it is written, so calls sent at once can't
share the last one a ceiling allows.
"""

from collections.abc import Iterable

from opensafe.model.history import taints_after
from opensafe.model.ids import now_us
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.policy_input import BudgetInput, SessionInput
from opensafe.model.usage import Usage
from opensafe.state.rows import CallRow, SandboxRow, SessionRow
from opensafe.state.store import Store

from .remembered import Remembered


class History:
    """Answers for one judgement at a time, in the event loop's thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.written = Remembered(store)

    def of(self, session: SessionRow, sandbox_id: str, hosts: Iterable[str] = ()) -> tuple[SessionInput, BudgetInput]:
        """The past of `session` for a call in `sandbox_id` ("": in none) that names these hosts."""
        now, history = now_us(), self._store.history
        session = self._store.session(session.session_id) or session
        under_way = history.under_way(session.session_id, sandbox_id, now)
        used = session.usage.plus(Usage(wall_us=under_way.wall_us))
        by_principal = history.principal_usage(session.principal, now).plus(
            Usage(wall_us=history.wall_us(session.principal, now))
        )
        return (
            SessionInput(
                id=session.session_id,
                agent=session.agent,
                age_s=max(0, now - session.created_us) // 10**6,
                taints=_taints(session, self._store.sandbox(sandbox_id), under_way.effects),
                counts=session.counts,
                window=session.recent.window(now),
                recent_tools=session.recent_tools,
                banned=history.banned(session.principal, session.agent),
            ),
            BudgetInput(
                usage=used.as_budget(),
                principal=by_principal.as_budget(),
                limits=session.limits.as_budget(),
                hosts=history.host_usage(session.session_id, sorted(set(hosts))),
            ),
        )


def used_by(call: CallRow | None, outcome: Outcome) -> Usage:
    """What a call used up that ended so, as the daemon observed it.

    Nobody saw how long a lost call ran: then it is the time since its verdict, within the limit it was granted. Nor
    does the daemon see a run elsewhere: a permit takes the time until it was used up, whatever the client says.
    """
    written = outcome.stdout_bytes + outcome.stderr_bytes
    if call is None or not call.allowed_us:
        return Usage(output_bytes=written)
    since_us = max(0, now_us() - call.allowed_us)
    if call.permit:
        return Usage(wall_us=since_us)
    if outcome.kind is OutcomeKind.LOST and not outcome.run_ns:
        return Usage(wall_us=min(since_us, call.decision.grant.limits.wall_ms * 1000), output_bytes=written)
    return Usage(wall_us=outcome.run_ns // 1000, output_bytes=written)


def _taints(session: SessionRow, sandbox: SandboxRow | None, under_way: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """A call under way counts as if it had ended: what it reads can be used by others at once."""
    taints = tuple(dict.fromkeys((*session.taints, *(sandbox.taints if sandbox else ()))))
    for effects in under_way:
        taints = taints_after(taints, effects)
    return taints
