"""Every call by its number, and every argument that a profile has not."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from opensafe.proof.escape.ground import Ground
from opensafe.proof.escape.probe import Boundary, Run, Severity
from opensafe.proof.escape.trial import Attempt as Try
from opensafe.proof.escape.trial import Trial
from opensafe.proof.escape.ways import FILTER, POLICY
from opensafe.warden.sandbox.profiles import PROFILES

from . import denied, plan, whole
from .figures import ANSWERS
from .mutants import mutant
from .plan import Answers, Attempt
from .stand import called, swept, swept_by_calls, unfiltered
from .sweep import OPEN, bring, sweep

_DEFAULT: Final = "default"
_NAMED: Final = 3
Judge = Callable[[str, Attempt, str], bool]
"""Whether an answer under a profile is a breach."""


def _done(profile: str, attempt: Attempt, answer: str) -> bool:
    """Out of policy, and answered by none of those that refuse."""
    return not plan.allowed(PROFILES[profile], attempt) and answer not in ANSWERS


def _not_as_stated(profile: str, attempt: Attempt, answer: str) -> bool:
    """Out of policy with another answer than the profile's own, or of policy with that which means "refused"."""
    stated = plan.stated(PROFILES[profile], attempt)
    return answer == "EXDEV" if stated == plan.ALLOWED else answer != stated


def _accepted(profile: str, attempt: Attempt, answer: str) -> bool:
    """A denied argument that was not refused."""
    return answer != plan.stated(PROFILES[profile], attempt)


def judged(answers: Mapping[str, Answers], attempts: Sequence[Attempt], breach: Judge, opened: tuple[str, ...]) -> Run:
    """A run of sweeps, by profile."""
    through = [
        f"{one.name} {one.arguments or 'null'}: {answers[profile][one]}"
        for profile in answers
        for one in attempts
        if one in answers[profile] and breach(profile, one, answers[profile][one])
    ]
    counted = {name: sum(answer == name for of in answers.values() for answer in of.values()) for name in ANSWERS}
    ran = sum(len(of) for of in answers.values())
    return Run(
        opened=opened,
        began=ran > 0,
        finished=ran == len(attempts) * len(answers),
        found=f"{len(through)} got through: {', '.join(through[:_NAMED])}" if through else "",
        layer=f"call filter: {', '.join(f'{count} {name}' for name, count in counted.items() if count) or 0} of {ran}",
    )


def _by_call(breach: Judge) -> Try:
    async def attempt(on: Ground) -> Run:
        return judged({_DEFAULT: await swept_by_calls(on)}, plan.attempts(), breach, ())

    return attempt


def _in_cells(breach: Judge) -> Try:
    async def attempt(on: Ground) -> Run:
        answers = {profile: await swept(on, profile) for profile in whole.ALL}
        return judged(answers, plan.attempts(), breach, (POLICY,))

    return attempt


def _without(breach: Judge) -> Try:
    async def control(on: Ground) -> Run:
        return judged({_DEFAULT: await swept(on, OPEN)}, plan.attempts(), breach, (POLICY, FILTER))

    return control


async def _arguments_by_call(on: Ground) -> Run:
    assert on.daemon is not None  # noqa: S101 - only a control has none
    return judged({_DEFAULT: await called(on.daemon, denied.attempts())}, denied.attempts(), _accepted, ())


async def _arguments_in_a_cell(on: Ground) -> Run:
    async with on.cells.cell() as cell:
        await bring(cell)
        answers = await sweep(cell, _DEFAULT, denied.attempts())
    return judged({_DEFAULT: answers}, denied.attempts(), _accepted, (POLICY,))


async def _arguments_of_a_mutant(on: Ground) -> Run:
    return judged({_DEFAULT: await called(await mutant(on), denied.attempts())}, denied.attempts(), _accepted, ())


FILTERED = (
    Trial(
        id="SY-01", boundary=Boundary.SYSCALL, severity=Severity.INTERNAL_ESC,
        title="every system call number that no profile has: x86-64, x32 and int 0x80, null and plausible arguments",
        attacks=("T1106", "T1611"),
        breach="an out-of-policy number is answered by something else than EXDEV, ENOSYS or SIGSYS; without the filter,"
        " the host stands otherwise than before, or a thread around the guest otherwise than it should",
        control="the same without the filter: the sentry does what it has of them",
        attempts=(
            _by_call(_done),
            _in_cells(_done),
            lambda on: unfiltered(on, plan.attempts(), root=False),
            lambda on: unfiltered(on, plan.attempts(), root=True),
        ),
        weak=_without(_done),
    ),
    Trial(
        id="SY-02", boundary=Boundary.SYSCALL, severity=Severity.INTEGRITY,
        title="a refusal can be told from what is not implemented: EXDEV for what is in no list, and only there",
        attacks=("T1106",),
        breach="an out-of-policy number has another errno than its profile states, or a number of policy has EXDEV",
        control="the same without the filter: nothing is EXDEV any more",
        attempts=(_by_call(_not_as_stated), _in_cells(_not_as_stated)),
        weak=_without(_not_as_stated),
    ),
    Trial(
        id="SY-04", boundary=Boundary.SYSCALL, severity=Severity.INTERNAL_ESC,
        title="arguments that no profile has: new namespaces, raw and strange sockets, personalities, TIOCSTI, prctl",
        attacks=("T1611", "T1056"),
        breach="a denied argument is accepted; without the filter, the host stands otherwise than before",
        control="mut: the same by a daemon whose filter does not look at arguments",
        attempts=(
            _arguments_by_call,
            _arguments_in_a_cell,
            lambda on: unfiltered(on, denied.attempts(), root=False),
            lambda on: unfiltered(on, denied.attempts(), root=True),
        ),
        weak=_arguments_of_a_mutant,
    ),
)  # fmt: skip
