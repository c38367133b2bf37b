"""A scripted model: what it plays, that it remembers nothing, and that the demo is the demo."""

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from opensafe.errors import InvalidArgument
from opensafe.planner import Script, ScriptedModel, load_script
from opensafe.proof.private import demo_files
from opensafe.proof.seed import SEED, STEPS

TURNS = [
    {"calls": [{"tool": "Bash", "arguments": {"command": "a"}}, {"tool": "Bash", "arguments": "{"}]},
    {"answer": "b"},
]


def write(tmp_path, text):
    path = tmp_path / "script"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"turns": TURNS}),
        "turns:\n- calls:\n  - {tool: Bash, arguments: {command: a}}\n  - {tool: Bash, arguments: '{'}\n- answer: b\n",
    ],
    ids=["JSON", "YAML"],
)
async def test_it_plays_turn_by_turn_from_the_conversation_alone(tmp_path, text):
    model = ScriptedModel(script=load_script(write(tmp_path, text)))
    first = await model.ainvoke([HumanMessage("x")])
    assert [call["args"] for call in first.tool_calls] == [{"command": "a"}]
    assert [call["args"] for call in first.invalid_tool_calls] == ["{"]
    for _ in range(2):
        assert (await model.ainvoke([HumanMessage("x"), AIMessage("")])).content == "b"
    assert (await model.ainvoke([AIMessage("")] * 2)).content == "The script is over."


@pytest.mark.parametrize(
    "text",
    ["", "turns: [", "turns: {}", "turns: [{cal: 1}]", "- 1", "turns: [{answer: !!python/object/apply:os.getcwd []}]"],
)
def test_what_is_no_script_is_said_to_be(tmp_path, text):
    with pytest.raises(InvalidArgument, match="it is no script"):
        load_script(write(tmp_path, text))


def test_a_script_that_is_not_there_is_said_to_be(tmp_path):
    with pytest.raises(InvalidArgument, match="can't be read"):
        load_script(str(tmp_path / "none"))


def test_the_demo_is_that_of_make_demo():
    script = load_script("demo")
    assert isinstance(script, Script)
    calls = [wanted for turn in script.turns for wanted in ((turn.call,) if turn.call else turn.calls)]
    seeded = [("Write", {"path": f"/workspace/{name}", "content": (demo_files() / name).read_text()}) for name in SEED]
    assert [(one.tool, one.arguments) for one in calls] == [*seeded, *((step.tool, step.arguments) for step in STEPS)]
    assert script.task
    assert script.turns[-1].answer
