"""What a stress run does with each of its sandboxes: drawn from the seed and the sandbox's number, and nothing else.

Workers take numbers by turns, so who does what when differs from run to run; what is done to number 417 does not.
"""

import random
from typing import Final, Literal

import msgspec

Victim = Literal["", "client", "sentry", "gofer", "front", "helper", "daemon"]
Ending = Literal["delete", "delete_and_go", "lease"]
Step = Literal["exit", "fail", "deadline", "cancel", "flood", "pause", "pause_under_call"]

_STEPS: Final[tuple[Step, ...]] = ("exit", "fail", "deadline", "cancel", "flood", "pause", "pause_under_call")
_VICTIMS: Final[dict[Victim, int]] = {"": 64, "client": 10, "sentry": 10, "gofer": 8, "front": 4, "helper": 4}
_ENDINGS: Final[dict[Ending, int]] = {"delete": 6, "delete_and_go": 2, "lease": 2}
#: Every so many sandboxes the whole daemon is killed.
DAEMON_EVERY: Final = 100
_MOST_STEPS: Final = 3


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """steps: what is done in order. victim: who is killed then, under a call where there is one. at_s: how long after
    that call began, or where there is none, after the creation did. ending: how the sandbox is left.
    """

    number: int
    steps: tuple[Step, ...]
    victim: Victim
    at_s: float
    ending: Ending


def draw(seed: int, number: int) -> Plan:
    """The plan of one sandbox; numbers begin at 0."""
    chance = random.Random(f"{seed}-{number}")  # noqa: S311 - a choice that can be repeated, no secret
    steps = tuple(chance.choices(_STEPS, k=chance.randint(0, _MOST_STEPS)))
    (victim,) = chance.choices(tuple(_VICTIMS), tuple(_VICTIMS.values()))
    at_s = round(chance.uniform(0, 0.3), 3)
    (ending,) = chance.choices(tuple(_ENDINGS), tuple(_ENDINGS.values()))
    if number % DAEMON_EVERY == DAEMON_EVERY - 1:
        victim = "daemon"
    return Plan(number=number, steps=steps, victim=victim, at_s=at_s, ending=ending)
