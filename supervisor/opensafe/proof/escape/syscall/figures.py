"""What a sweep shows of a profile: how its out-of-policy calls were answered, and what they do where no filter is."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from opensafe.warden.sandbox.profiles import PROFILES

from . import plan
from .plan import Answers, Attempt
from .sweep import OPEN

#: How a profile can answer; the sentry itself answers ENOSYS where it has no such call.
ANSWERS: Final = ("EXDEV", "ENOSYS", "SIGSYS")
_SHOWN: Final = 20


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """One profile.

    answered: its out-of-policy attempts by their answer, EXDEV, ENOSYS, SIGSYS and other. wrong: each whose answer is
    not what the profile states, and each of policy that was refused. open_otherwise: how many of the out-of-policy
    attempts are answered otherwise without the filter; open_done: how many of those by something that the sentry has.
    differs: from the table of this runsc.
    """

    profile: str
    planned: int
    ran: int
    out_of_policy: int
    answered: Mapping[str, int]
    wrong: tuple[str, ...]
    open_otherwise: int
    open_done: int
    differs: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every attempt was made and answered as the profile states, and the filter is what did it."""
        return self.ran == self.planned and not self.wrong and self.open_done > 0

    @property
    def as_stated(self) -> int:
        """Out-of-policy attempts that were answered as the profile states."""
        return sum(count for answer, count in self.answered.items() if answer != "other")


def swept(
    profile: str, attempts: Sequence[Attempt], answers: Answers, without: Answers, differs: tuple[str, ...] = ()
) -> Swept:
    """Of a profile's answers, and those to the same attempts without a filter."""
    rules = PROFILES[profile]
    answered = Counter(dict.fromkeys((*ANSWERS, "other"), 0))
    wrong: list[str] = []
    otherwise = done = out = 0
    for one in attempts:
        stated, answer = plan.stated(rules, one), answers.get(one, "nothing")
        if stated == plan.ALLOWED:
            if answer in ("EXDEV", "SIGSYS"):
                wrong.append(f"{one.name} {one.arguments or 'null'}: {answer}, though it is allowed")
            continue
        out += 1
        answered[answer if answer == stated else "other"] += 1
        if answer != stated:
            wrong.append(f"{one.name} {one.arguments or 'null'}: {answer}, not {stated}")
        bare = without.get(one, "nothing")
        otherwise += bare != stated
        done += bare not in (stated, "ENOSYS", "nothing")
    return Swept(
        profile=profile,
        planned=len(attempts),
        ran=sum(one in answers for one in attempts),
        out_of_policy=out,
        answered=dict(answered),
        wrong=tuple(wrong),
        open_otherwise=otherwise,
        open_done=done,
        differs=differs,
    )


def summary(
    all_swept: Sequence[Swept], version: str, seconds: float, *, table: bool, open_differs: int = 0
) -> dict[str, Any]:
    """The figures over all profiles. ok: each holds, and all is answered as this runsc's table has it.

    open_differs: how many are not so without a filter.
    """
    differs = open_differs + sum(len(one.differs) for one in all_swept)
    return {
        "ok": bool(all_swept) and all(one.holds for one in all_swept) and table and not differs,
        "runsc": version,
        "table": table,
        "profiles": len(all_swept),
        "planned": sum(one.planned for one in all_swept),
        "ran": sum(one.ran for one in all_swept),
        "out_of_policy": sum(one.out_of_policy for one in all_swept),
        **{answer: sum(one.answered[answer] for one in all_swept) for answer in (*ANSWERS, "other")},
        "wrong": sum(len(one.wrong) for one in all_swept),
        "differs": differs,
        "open_done": sum(one.open_done for one in all_swept),
        "seconds": round(seconds, 1),
    }


def lines(all_swept: Sequence[Swept], open_differs: Sequence[str] = ()) -> list[str]:
    """A line for each profile, and below it what is wrong."""
    said = []
    for one in all_swept:
        answers = ", ".join(f"{count} {answer}" for answer, count in one.answered.items() if count)
        said.append(
            f"{one.profile:8}{one.ran} of {one.planned} ran; out of policy {one.out_of_policy}: {answers}; without the"
            f" filter ({OPEN}) {one.open_otherwise} otherwise, {one.open_done} of them done"
        )
        said += _shortened((*one.wrong, *one.differs))
    return [*said, *([f"{OPEN:8}is not as expected:", *_shortened(open_differs)] if open_differs else [])]


def _shortened(texts: Sequence[str]) -> list[str]:
    more = len(texts) - _SHOWN
    return [*(f"{'':8}{text}" for text in texts[:_SHOWN]), *([f"{'':8}and {more} more"] if more > 0 else [])]
