"""Function tools in OpenAI's shape, for any client and server that speaks it; no package of OpenAI's is needed.

    with Sandbox.create("my-agent") as sandbox:
        tools = FunctionTools(sandbox)
        reply = client.chat.completions.create(model=..., messages=messages, tools=tools.definitions())
        messages += [tools.dispatch(call) for call in reply.choices[0].message.tool_calls]

Whatever a model writes into a call, the answer is a message for it, and no exception: what it may mend, what policy
denied with the remedy, what failed.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from opensafe.client import AsyncSandbox, Sandbox

from ._calling import call, call_async, parse
from ._told import SHOWN, Answer, Status, refused
from ._tools import Tool, selected

__all__ = ["Answer", "AsyncFunctionTools", "FunctionTools", "Status"]


class _Functions:
    def __init__(self, only: Iterable[str] | None, shown: int) -> None:
        self._tools = {tool.name: tool for tool in selected(only)}
        self._shown = shown

    def definitions(self, api: Literal["chat", "responses"] = "chat") -> list[dict[str, Any]]:
        """The tools as plain dicts, for Chat Completions or for Responses."""
        return [_definition(tool, api) for tool in self._tools.values()]

    def _read(self, tool_call: object) -> tuple[Tool, dict[str, Any]] | Answer:
        function = _get(tool_call, "function")
        named = tool_call if function is None else function
        name = _get(named, "name")
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            return refused(f"there is no tool {str(name)[:100]!r}. There are {', '.join(self._tools)}.")
        arguments = parse(_get(named, "arguments"))
        return arguments if isinstance(arguments, Answer) else (tool, arguments)


class FunctionTools(_Functions):
    """The tools of a Sandbox."""

    def __init__(self, sandbox: Sandbox, *, only: Iterable[str] | None = None, shown: int = SHOWN) -> None:
        """only: names of the tools to offer. shown: characters of output that the model gets."""
        super().__init__(only, shown)
        self._sandbox = sandbox

    def answer(self, tool_call: object) -> Answer:
        """Carry out a call: what became of it."""
        read = self._read(tool_call)
        return read if isinstance(read, Answer) else call(read[0], self._sandbox, read[1], self._shown)

    def dispatch(self, tool_call: object) -> dict[str, Any]:
        """Carry out a call, a dict or an object of the SDK's: the message that answers it."""
        return _message(tool_call, self.answer(tool_call))


class AsyncFunctionTools(_Functions):
    """The tools of an AsyncSandbox."""

    def __init__(self, sandbox: AsyncSandbox, *, only: Iterable[str] | None = None, shown: int = SHOWN) -> None:
        """As FunctionTools."""
        super().__init__(only, shown)
        self._sandbox = sandbox

    async def answer(self, tool_call: object) -> Answer:
        """Carry out a call: what became of it."""
        read = self._read(tool_call)
        return read if isinstance(read, Answer) else await call_async(read[0], self._sandbox, read[1], self._shown)

    async def dispatch(self, tool_call: object) -> dict[str, Any]:
        """Carry out a call, a dict or an object of the SDK's: the message that answers it."""
        return _message(tool_call, await self.answer(tool_call))


def _definition(tool: Tool, api: Literal["chat", "responses"]) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    if api == "responses":
        return {"type": "function", **function, "strict": False}
    return {"type": "function", "function": function}


def _message(tool_call: object, answer: Answer) -> dict[str, Any]:
    """For Chat Completions, where a call has a `function`; else for Responses, where its id is its `call_id`."""
    if _get(tool_call, "type") == "function_call":
        return {"type": "function_call_output", "call_id": str(_get(tool_call, "call_id") or ""), "output": answer.text}
    return {"role": "tool", "tool_call_id": str(_get(tool_call, "id") or ""), "content": answer.text}


def _get(holder: object, name: str) -> Any:  # noqa: ANN401 - whatever a model's server sent
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
