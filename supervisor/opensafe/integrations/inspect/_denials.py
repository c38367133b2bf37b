"""What policy refused a sample, where scorers and readers of logs find it: by sandbox, in the sample's store, and in
its transcript.
"""

from collections.abc import Mapping
from typing import Any, Final

from inspect_ai.log import transcript
from inspect_ai.util import SandboxEnvironment, Store, store
from pydantic import BaseModel, ConfigDict

from opensafe.errors import Denied, ReviewPending

#: Key of the sample's store; in a log, of `sample.store`.
DENIALS: Final = "opensafe:denials"
#: A sample that tries on and on fills no log.
_KEPT: Final = 1000
_SUBJECT: Final = 200


class Denial(BaseModel):
    """One no. outcome: blocked, review_pending, review_rejected, review_expired, or violation, which alone means that
    a program ran.

    action: `exec`, `read_file` or `write_file`. subject: the command or path. rules: those that decided; rule, value
    and remedy are the first one's. call_id: what `opensafe policy explain --decision` takes.
    """

    model_config = ConfigDict(frozen=True)

    action: str
    subject: str
    outcome: str
    rule: str
    rules: tuple[str, ...]
    reason: str
    value: str
    remedy: str
    review_id: str = ""
    call_id: str
    sandbox_id: str

    def __str__(self) -> str:
        review = f"The review is {self.review_id}." if self.review_id else ""
        return " ".join(part for part in (self.reason, review, self.remedy) if part)


def of(error: Denied | ReviewPending, action: str, subject: str, sandbox_id: str) -> Denial:
    """The denial that `error` is."""
    rules = tuple(hit.id for hit in error.rules)
    pending = isinstance(error, ReviewPending)
    first = error.rules[0] if error.rules else None
    return Denial(
        action=action,
        subject=subject[:_SUBJECT],
        outcome="review_pending" if isinstance(error, ReviewPending) else error.outcome,
        rule=rules[0] if rules else "",
        rules=rules,
        reason=f"{error.message}.",
        value=first.value if first is not None else "" if pending else error.value,
        remedy=error.remedy or (first.remedy if first is not None else ""),
        review_id=error.review_id if isinstance(error, ReviewPending) else "",
        call_id=error.call_id,
        sandbox_id=sandbox_id,
    )


def log(denial: Denial) -> None:
    """Put it into the store and the transcript of the sample that is under way."""
    plain = denial.model_dump(mode="json")
    kept: list[Any] = store().get(DENIALS, [])
    if len(kept) < _KEPT:
        store().set(DENIALS, [*kept, plain])
    transcript().info(plain, source="opensafe")


def denials(where: SandboxEnvironment | Store | Mapping[str, Any] | None = None) -> tuple[Denial, ...]:
    """What policy refused, the first 1000 in order.

    where: a sandbox, a sample's store (`sample.store` of a log); None for the sample that is under way.
    """
    if isinstance(where, SandboxEnvironment):
        from ._environment import OpenSafeSandboxEnvironment

        return where.as_type(OpenSafeSandboxEnvironment).denials
    found: list[Any] = (store() if where is None else where).get(DENIALS, [])
    return tuple(Denial.model_validate(one) for one in found)


def keep(kept: list[Denial], denial: Denial) -> None:
    """Add one to a sandbox's own list, and log it."""
    if len(kept) < _KEPT:
        kept.append(denial)
    log(denial)
