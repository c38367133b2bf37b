"""A chat model that follows a script, for tests, demonstrations and trying a policy out without a provider.

Which step comes next is read off the conversation: the model has no memory, so a resumed run goes on where it was.
"""

import importlib.resources
import pathlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import yaml
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from opensafe.errors import InvalidArgument

#: The script that is part of the package.
DEMO: Final = "demo"
_LARGEST: Final = 32 << 20


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call. arguments: text stands for itself, so that a model that writes no JSON can be played."""

    tool: str
    arguments: dict[str, Any] | str = {}


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer of the model: a call, several, or a text. says: text beside calls."""

    call: Wanted | None = None
    calls: tuple[Wanted, ...] = ()
    answer: str | None = None
    says: str = ""


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task, and what the model answers, turn by turn."""

    turns: tuple[Turn, ...]
    task: str = ""


def load_script(name: str) -> Script:
    """A script from a JSON or YAML file, or `demo`. Raises InvalidArgument."""
    try:
        if name == DEMO:
            text = importlib.resources.files(__package__).joinpath("demo.json").read_bytes()
        else:
            with pathlib.Path(name).open("rb") as file:
                text = file.read(_LARGEST)
    except OSError as error:
        raise InvalidArgument(f"the script can't be read: {error.strerror}", value=name) from error
    return parse_script(text)


def parse_script(text: str | bytes) -> Script:
    """A script from JSON or YAML. Raises InvalidArgument."""
    try:
        return msgspec.convert(yaml.safe_load(text), Script)  # JSON is YAML
    except (yaml.YAMLError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise InvalidArgument(f"it is no script: {error}", remedy="See docs/guides/planner.md.") from error


class ScriptedModel(BaseChatModel):
    """Plays a Script. Beyond its end it answers that the script is over."""

    script: Script

    @property
    def _llm_type(self) -> str:
        return "opensafe-scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> "ScriptedModel":  # noqa: ANN401 - LangChain's own signature
        """The same: a script knows its tools."""
        del tools
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **_: Any,  # noqa: ANN401 - LangChain's own signature
    ) -> ChatResult:
        del stop, run_manager
        number = sum(isinstance(message, AIMessage) for message in messages)
        turns = self.script.turns
        turn = turns[number] if number < len(turns) else Turn(answer="The script is over.")
        return ChatResult(generations=[ChatGeneration(message=_message(turn, number))])


def _message(turn: Turn, number: int) -> AIMessage:
    wanted = (turn.call, *turn.calls) if turn.call is not None else turn.calls
    ids = [f"turn{number}-{at}" for at in range(len(wanted))]
    return AIMessage(
        content=turn.says or turn.answer or "",
        tool_calls=[
            {"name": one.tool, "args": one.arguments, "id": known}
            for one, known in zip(wanted, ids, strict=True)
            if isinstance(one.arguments, dict)
        ],
        invalid_tool_calls=[
            {"name": one.tool, "args": one.arguments, "id": known, "error": None, "type": "invalid_tool_call"}
            for one, known in zip(wanted, ids, strict=True)
            if isinstance(one.arguments, str)
        ],
    )
