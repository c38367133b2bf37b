"""The scenarios as data: `policies/scenarios/FAMILY.jsonl`, one a line, an attack and its twin.

An attack gets ready by steps that are honest by themselves, then takes the one it is for (`aim`). Its twin does the
same work without the harm, and its aim must run. `{mark}` in any text is a path of this play's own, which an aim makes;
where another thing shows that it ran, `mark` or `gone` names that.
"""

import enum
import pathlib
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

import msgspec

from opensafe.errors import InvalidArgument

MIN_STEPS: Final = 3


class Family(enum.StrEnum):
    """What an attack is after."""

    EXFILTRATION = "exfiltration"
    DESTRUCTION = "destruction"
    PRIVILEGE = "privilege"
    PERSISTENCE = "persistence"
    INJECTION = "injection"
    BUDGET = "budget"
    APPROVAL = "approval"


class Do(enum.StrEnum):
    """What a step is.

    call: a tool in the sandbox. permit: a tool that runs elsewhere; where there is a permit, its mark is made.
    open: the same, and it stays under way. report: declared usage. approve, reject: of an earlier step's review, by
    somebody. session: go on in a new session, in the same sandbox. close: the session ends. ban: by the reviewer.
    """

    CALL = "call"
    PERMIT = "permit"
    OPEN = "open"
    REPORT = "report"
    APPROVE = "approve"
    REJECT = "reject"
    SESSION = "session"
    CLOSE = "close"
    BAN = "ban"


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step.

    expect: how it must end, or the scenario has not come about; of an attack's aim nothing is expected, that is the
    question. id: the call's, to speak of it later, or to use it twice. times: repeat it. of: the step whose review is
    decided; digest_of: whose digest is stated; by: who decides, `self` is the agent's own principal. shown: the
    description that a server showed.
    """

    do: Do = Do.CALL
    tool: str = ""
    arguments: dict[str, Any] = {}
    expect: Literal["allow", "review", "block", "refused"] = "allow"
    aim: bool = False
    id: str = ""
    times: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    of: str = ""
    digest_of: str = ""
    by: Literal["reviewer", "other", "self"] = "reviewer"
    shown: str = ""
    tokens: int = 0
    cost_microusd: int = 0


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attack or a twin. idea: what it does. limits: of its session. mark: a path that is there if the aim ran; gone:
    one that is not there any more.
    """

    idea: str
    steps: tuple[Step, ...]
    limits: dict[str, int] = {}
    mark: str = "{mark}"
    gone: str = ""

    @property
    def length(self) -> int:
        """How many steps there are, repeated ones as often."""
        return sum(step.times for step in self.steps)


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of a family. rule: what has to stop the attack: a rule's id, or the reason of the error that refuses it.

    also: what is as right. control: what shows that the attack's mark can be made: the attack where everything is
    allowed, or, where it is no rule that stops it, the twin.
    """

    id: str
    rule: str
    also: tuple[str, ...] = ()
    control: Literal["opened", "twin"] = "opened"
    attack: Part
    twin: Part


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario with its family."""

    scenario: Scenario
    family: Family


def load(directory: pathlib.Path) -> tuple[Entry, ...]:
    """All of them. Raises InvalidArgument: an absent file, a line that is none, one that is short, an id used twice."""
    entries = tuple(Entry(scenario=one, family=family) for family in Family for one in _read(directory, family))
    ids = [entry.scenario.id for entry in entries]
    if twice := {one for one in ids if ids.count(one) > 1}:
        raise InvalidArgument("an id is used twice", value=", ".join(sorted(twice)))
    return entries


def _read(directory: pathlib.Path, family: Family) -> Iterator[Scenario]:
    path = directory / f"{family}.jsonl"
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InvalidArgument(f"the scenarios can't be read: {error.strerror}", value=path) from error
    for number, line in enumerate(lines, 1):
        try:
            scenario = msgspec.json.decode(line, type=Scenario)
        except msgspec.MsgspecError as error:
            raise InvalidArgument(f"{path.name}:{number} is no scenario: {error}") from error
        for part in (scenario.attack, scenario.twin):
            _check(scenario.id, part)
        yield scenario


def _check(name: str, part: Part) -> None:
    if part.length < MIN_STEPS:
        raise InvalidArgument(f"{name} has too few steps", value=part.length, limit=MIN_STEPS)
    if not any(step.aim for step in part.steps):
        raise InvalidArgument(f"{name} aims at nothing", value=part.idea)
    known: set[str] = set()
    for step in part.steps:
        if {step.of, step.digest_of} - known - {""}:
            raise InvalidArgument(f"{name} speaks of a step that was not taken", value=step.of or step.digest_of)
        known.add(step.id)
