"""The demo's verdicts, and the data set's questions put to the engine and to OPA's own evaluator.

Which verdict each case must get is held in tests/unit/proof.
"""

import contextlib
import json
import pathlib
import random
import subprocess
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opensafe.errors import RequestError
from opensafe.model.calls import Principal
from opensafe.model.decision import Action, Decision
from opensafe.model.policy_input import BudgetInput, PolicyInput, SessionInput
from opensafe.model.usage import Usage
from opensafe.normalize.tools import DEFAULT_REGISTRY
from opensafe.policy.engine import Engine
from opensafe.policy.manifest import Bundle
from opensafe.policy.subject import call_input
from opensafe.proof.ask import ask
from opensafe.proof.cases import load_cases
from tests.harness.policy import CALM

POLICIES = pathlib.Path(__file__).parents[3] / "policies"
CASES = {entry.case.id: entry.case for entry in load_cases(POLICIES / "cases")}
DEMO = [
    ("Read", {"path": "/workspace/README.md"}, "allow", {"tool.read.workspace.allow"}),
    ("Bash", {"command": "npm install"}, "review", {"tool.exec.package.install.review"}),
    ("Bash", {"command": "curl evil.example.com"}, "block", {"egress.domain.allowlist", "tool.bash.network.deny"}),
    ("Write", {"path": "/workspace/src/app.ts", "content": "x"}, "allow", {"tool.write.workspace.allow"}),
    ("Read", {"path": "/etc/shadow"}, "block", {"tool.read.secrets.block"}),
    ("Bash", {"command": "python3 test_suite.py"}, "allow", {"tool.bash.workspace.allow"}),
]
FILES = [
    ("Stat", {"path": "src"}, "allow", {"tool.list.workspace.allow"}),
    ("Stat", {"path": "/etc/shadow"}, "block", {"tool.read.secrets.block"}),
    ("Watch", {"path": "src"}, "allow", {"tool.files.workspace.allow"}),
    ("Watch", {"path": "/etc"}, "block", {"default.deny"}),
    ("Remove", {"path": "build", "recursive": True}, "allow", {"tool.files.workspace.allow"}),
    ("Remove", {"path": "/workspace", "recursive": True}, "block", {"tool.delete.scope.deny"}),
    ("Remove", {"path": ".git/index"}, "block", {"tool.delete.scope.deny"}),
    ("Move", {"path": "a", "to": "/tmp/b"}, "allow", {"tool.files.workspace.allow"}),
    ("Move", {"path": ".env", "to": "plain"}, "block", {"tool.read.secrets.block"}),
    ("Move", {"path": "a", "to": ".envrc"}, "block", {"tool.write.rc.deny"}),
    ("Move", {"path": "a", "to": "Makefile"}, "review", {"tool.write.ci.review"}),
    ("Mkdir", {"path": "a"}, "allow", {"tool.files.workspace.allow"}),
    ("Mkdir", {"path": "/etc/cron.d"}, "block", {"tool.write.path.allowlist", "tool.write.rc.deny"}),
    ("Download", {"path": "."}, "allow", {"tool.files.workspace.allow"}),
    ("Download", {"path": "/home"}, "block", {"default.deny"}),
    ("Upload", {"path": "in"}, "allow", {"tool.files.workspace.allow"}),
    ("Upload", {"path": ".git"}, "block", {"tool.write.vcs.deny"}),
    ("Write", {"path": "a", "size": 1 << 30, "sha256": "a" * 64}, "allow", {"tool.write.workspace.allow"}),
    ("Write", {"path": "a", "size": 1 << 40, "sha256": "a" * 64}, "block", {"tool.write.size.limit"}),
]


def put(engine: Engine, tool: str, arguments: dict[str, Any], name: str = "q") -> tuple[str, PolicyInput]:
    call = DEFAULT_REGISTRY.validate("c", tool, json.dumps(arguments).encode(), 4 << 20)
    question = PolicyInput(
        id=name,
        kind="call",
        call=call_input(call, DEFAULT_REGISTRY.facts(call, engine.tables)),
        principal=Principal(name="default", roles=("developer",)),
        session=SessionInput(id="s", window=CALM),
        budget=BudgetInput(usage=Usage().as_budget(), principal=Usage().as_budget()),
    )
    return DEFAULT_REGISTRY.entrypoint(tool), question


def deciding(decision: Decision) -> set[str]:
    return {hit.id for hit in decision.deciding()}


@pytest.mark.parametrize(("tool", "arguments", "action", "rules"), DEMO)
def test_the_demo_gets_its_verdicts(
    engine: Engine, tool: str, arguments: dict[str, Any], action: str, rules: set[str]
) -> None:
    decision = engine.evaluate(*put(engine, tool, arguments))
    assert (decision.action, deciding(decision)) == (action, rules)


@pytest.mark.parametrize(("tool", "arguments", "action", "rules"), FILES)
def test_files_are_held_to_the_rules_on_what_they_read_write_and_delete(
    engine: Engine, tool: str, arguments: dict[str, Any], action: str, rules: set[str]
) -> None:
    decision = engine.evaluate(*put(engine, tool, arguments))
    assert (decision.action, deciding(decision)) == (action, rules)


def test_a_tree_s_grant_says_what_it_must_leave_out(engine: Engine) -> None:
    paths = engine.evaluate(*put(engine, "Download", {"path": "."})).grant.paths
    assert {"**/.env", "**/.bash_history"} <= set(paths.hold_read)
    assert {"**/.git/", "**/.bashrc"} <= set(paths.hold_write)
    assert engine.evaluate(*put(engine, "Mkdir", {"path": "a"})).grant.paths.hold_write == ()


@pytest.fixture(scope="module")
def asked(engine: Engine) -> dict[str, tuple[str, PolicyInput]]:
    """Entry point and question of every case that is not refused before policy sees it."""
    found = {}
    for name, case in CASES.items():
        with contextlib.suppress(RequestError):
            found[name] = ask(case, DEFAULT_REGISTRY, engine.tables)
    return found


def test_every_no_says_what_is_wrong_and_what_would_be_right(
    engine: Engine, asked: dict[str, tuple[str, PolicyInput]]
) -> None:
    assert len(asked) > 1000
    for name, (entrypoint, question) in asked.items():
        decision = engine.evaluate(entrypoint, question)
        if decision.action is not Action.ALLOW:
            assert all(hit.reason and hit.remedy for hit in decision.deciding()), name


@pytest.fixture(scope="module")
def questions(asked: dict[str, tuple[str, PolicyInput]], bundle: Bundle) -> list[tuple[str, dict[str, Any]]]:
    """Entry point and question of every case and self-test, and of cases with one field taken away."""
    whole = [(entry, msgspec.to_builtins(question)) for entry, question in asked.values()]
    whole += [(vector.entrypoint, vector.input) for vector in bundle.vectors]
    pick = random.Random(7)
    maimed = []
    for entry, question in pick.sample(whole, 60):
        copy = json.loads(json.dumps(question))
        place = pick.choice([copy, copy["call"], copy["principal"], copy["budget"]])
        del place[pick.choice(sorted(place))]
        maimed.append((entry, copy))
    return whole + maimed


@pytest.fixture(scope="module")
def by_opa(
    questions: list[tuple[str, dict[str, Any]]], bundle: Bundle, opa: pathlib.Path, tmp_path_factory: Any
) -> list[Any]:
    """What `opa eval` on the sources answers: a list of results, empty where undefined, for each question."""
    scratch = tmp_path_factory.mktemp("opa")
    data = json.loads(bundle.data)
    data["asked"] = [{"rule": entry.removeprefix("gate/"), "input": question} for entry, question in questions]
    (scratch / "data.json").write_text(json.dumps(data))
    query = "[r | some q in data.asked; i := q.input; r := [v | v := data.opensafe.gate[q.rule] with input as i]]"
    done = subprocess.run(
        [opa, "eval", "--format", "json", "-d", POLICIES / "opensafe", "-d", scratch / "data.json", query],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    answers = json.loads(done.stdout)["result"][0]["expressions"][0]["value"]
    return [[in_order(result) for result in answer] for answer in answers]


def in_order(result: dict[str, Any]) -> dict[str, Any]:
    """`result` with the lists in order that a verdict has in none."""
    paths = {name: sorted(patterns) for name, patterns in result["grant"].get("paths", {}).items()}
    rules = sorted(result["rules"], key=lambda hit: sorted(hit.items()))
    return {**result, "rules": rules, "grant": {**result["grant"], "paths": paths}}


def test_the_engine_answers_as_opa_does(
    engine: Engine, questions: list[tuple[str, dict[str, Any]]], by_opa: list[Any]
) -> None:
    assert len(questions) == len(by_opa) > 300
    assert [] in by_opa, "some question is undefined"
    for (entry, question), expected in zip(questions, by_opa, strict=True):
        answer = json.loads(engine.evaluate_json(entry, json.dumps(question).encode()))
        assert [in_order(row["result"]) for row in answer] == expected, question


def test_two_thousand_mixed_questions_are_answered_as_each_alone(
    engine: Engine, questions: list[tuple[str, dict[str, Any]]], by_opa: list[Any]
) -> None:
    pick = random.Random(11)
    encoded = [(entry, json.dumps(question).encode()) for entry, question in questions]
    for _ in range(2000):
        n = pick.randrange(len(encoded))
        answer = json.loads(engine.evaluate_json(*encoded[n]))
        assert [in_order(row["result"]) for row in answer] == by_opa[n]


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(sorted(CASES)), st.dictionaries(_TEXT, _TEXT, max_size=3)), max_size=6))
def test_no_question_colours_the_next(
    engine: Engine, asked: dict[str, tuple[str, PolicyInput]], before: list[tuple[str, dict[str, str]]]
) -> None:
    probe = put(engine, "Bash", {"command": "curl evil.example.com && npm install"})
    expected = engine.evaluate_json(probe[0], msgspec.json.encode(probe[1]))
    for name, arguments in before:
        if name not in asked:
            continue
        entry, question = asked[name]
        call = msgspec.structs.replace(question.call, arguments=arguments)
        engine.evaluate(entry, msgspec.structs.replace(question, call=call))
        assert engine.evaluate_json(probe[0], msgspec.json.encode(probe[1])) == expected
