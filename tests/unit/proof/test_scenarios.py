"""The scenarios as they lie: enough of each family, each with a twin; their reader; and what counts as stopped."""

import collections
import json
from types import SimpleNamespace

import pytest

from opensafe.errors import InvalidArgument
from opensafe.model.decision import Action
from opensafe.model.outcome import OutcomeKind
from opensafe.proof import private
from opensafe.proof.scenarios import data, figures, site
from opensafe.proof.scenarios.play import Cast, End, Played, play
from opensafe.proof.scenarios.suite import Result


@pytest.fixture(scope="module")
def entries():
    return data.load(private.policies() / "scenarios")


def test_each_family_has_eight_of_three_steps_or_more(entries):
    of = collections.Counter(entry.family for entry in entries)
    assert set(of) == set(data.Family)
    assert min(of.values()) >= 8
    for entry in entries:
        for part in (entry.scenario.attack, entry.scenario.twin):
            assert part.length >= data.MIN_STEPS
            assert part.idea


def test_an_attack_and_its_twin_are_not_the_same(entries):
    for entry in entries:
        attack, twin = entry.scenario.attack, entry.scenario.twin
        assert (attack.steps, attack.limits) != (twin.steps, twin.limits), entry.scenario.id


def test_they_use_what_a_session_remembers(entries):
    """Each kind of memory is used by some: other sessions, taints, budgets, reviews, runs under way, bans."""
    used = {step.do for entry in entries for step in entry.scenario.attack.steps}
    assert used == set(data.Do)
    assert any(entry.scenario.attack.limits for entry in entries)


def test_their_tools_are_the_sites(entries):
    own = {tool["name"] for tool in site.tools()}
    steps = [step for entry in entries for part in (entry.scenario.attack, entry.scenario.twin) for step in part.steps]
    elsewhere = {step.tool for step in steps if step.do in (data.Do.PERMIT, data.Do.OPEN)}
    assert elsewhere == own


def _line(**more):
    step = {"tool": "Bash", "arguments": {"command": "ls"}}
    part = {"idea": "i", "steps": [step, step, step | {"aim": True}]}
    return {"id": "a", "rule": "r", "attack": part, "twin": part, **more}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (_line(more=1), "no scenario"),
        (_line(attack={"idea": "i", "steps": [{"tool": "Bash", "aim": True}]}), "too few steps"),
        (_line(twin={"idea": "i", "steps": [{"tool": "Bash"}] * 3}), "aims at nothing"),
        (_line(twin={"idea": "i", "steps": [{"do": "approve", "of": "x", "aim": True}] * 3}), "was not taken"),
    ],
)
def test_a_bad_line_is_refused(tmp_path, line, why):
    for family in data.Family:
        (tmp_path / f"{family}.jsonl").write_text("")
    assert data.load(tmp_path) == ()
    good, bad = tmp_path / "budget.jsonl", tmp_path / "approval.jsonl"
    good.write_text(json.dumps(_line()) + "\n")
    assert len(data.load(tmp_path)) == 1
    bad.write_text(json.dumps(line) + "\n")
    with pytest.raises(InvalidArgument, match=why):
        data.load(tmp_path)
    bad.write_text(good.read_text())
    with pytest.raises(InvalidArgument, match="twice"):
        data.load(tmp_path)


class Agent:
    """A principal whose every call is judged and ends as it is told, but for the look at the mark."""

    def __init__(self, action, kind, *, marked):
        self.action, self.kind, self.marked = action, kind, marked

    async def create_session(self, name, limits=None):
        return "session"

    async def create_sandbox(self, session):
        return SimpleNamespace(sandbox=SimpleNamespace(sandbox_id="sandbox"))

    async def close_session(self, session):
        pass

    async def unban(self, name):
        pass

    async def run_call(self, session, sandbox, name, tool, arguments):
        looks = name == "look"
        return SimpleNamespace(
            verdict=SimpleNamespace(action=Action.ALLOW if looks else self.action, rules=(), review_id=""),
            outcome=SimpleNamespace(kind=OutcomeKind.EXITED if looks else self.kind, exit_code=int(not self.marked)),
        )


@pytest.mark.parametrize(
    ("action", "kind", "marked", "end"),
    [
        (Action.ALLOW, OutcomeKind.DEADLINE, False, End.NOT_REACHED),
        (Action.ALLOW, OutcomeKind.SIGNALLED, False, End.NOT_REACHED),
        (Action.ALLOW, OutcomeKind.DEADLINE, True, End.RAN),
        (Action.ALLOW, OutcomeKind.EXITED, False, End.RAN),
        (Action.BLOCK, OutcomeKind.BLOCKED, False, End.STOPPED),
        (Action.BLOCK, OutcomeKind.BLOCKED, True, End.RAN),
    ],
)
async def test_an_aim_that_is_allowed_and_ended_by_something_else_shows_nothing(action, kind, marked, end):
    agent = Agent(action, kind, marked=marked)
    step = data.Step(tool="Bash", arguments={"command": "touch {mark}"}, aim=True)
    played = await play(data.Part(idea="i", steps=(step,)), Cast("name", agent, agent, agent))  # type: ignore[arg-type]  # has the methods that are used
    assert (played.end, played.marked) == (end, marked)
    assert bool(played.fault) is (end is End.NOT_REACHED)


STOPPED = Played(end=End.STOPPED, said=("block",), rules=("right",))
RAN = Played(end=End.RAN, said=("allow",), marked=True)


@pytest.mark.parametrize(
    ("attack", "control", "stopped"),
    [
        (STOPPED, RAN, True),
        (Played(end=End.STOPPED, said=("block",), rules=("other",)), RAN, False),
        (RAN, RAN, False),
        (Played(end=End.RAN, said=("block",), rules=("right",), marked=True), RAN, False),
        (Played(end=End.NOT_REACHED, fault="f"), RAN, False),
        (STOPPED, Played(end=End.RAN, said=("allow",)), False),
    ],
    ids=["stopped", "by another rule", "ran", "blocked, and marked", "not reached", "control without a mark"],
)
def test_stopped_is_by_verdict_and_effect_and_beside_a_control(entries, attack, control, stopped):
    entry = data.Entry(
        scenario=data.Scenario(
            id="a", rule="right", attack=entries[0].scenario.attack, twin=entries[0].scenario.twin
        ),
        family=data.Family.BUDGET,
    )  # fmt: skip
    found = figures.figures([Result(entry=entry, attack=attack, twin=RAN, control=control)])
    assert found.ok is stopped
    assert (found.all.stopped.hits, found.lines[0].stopped) == (int(stopped), stopped)
    falsely = figures.figures([Result(entry=entry, attack=STOPPED, twin=STOPPED, control=RAN)])
    assert not falsely.ok
    assert falsely.families[data.Family.BUDGET].falsely_stopped.hits == 1


def test_nothing_played_meets_no_goal():
    assert not figures.figures([]).ok
