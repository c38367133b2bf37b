"""A sandbox's tools as LangChain tools, for LangGraph's ToolNode and for any agent that takes BaseTools.

    with Sandbox.create("my-agent") as sandbox:
        agent = create_agent(model, tools(sandbox))

A ToolMessage's content is for the model; its artifact is the Answer, with the CommandResult or the error; its status is
`error` for all but success.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Literal

try:
    from langchain_core.messages import ToolCall, ToolMessage
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool
except ImportError as error:
    raise ImportError("opensafe.integrations.langchain needs LangChain: pip install 'opensafe[planner]'") from error

from opensafe.client import AsyncSandbox, Sandbox
from opensafe.errors import Conflict

from ._calling import call, call_async
from ._told import SHOWN, Answer, Status
from ._tools import Tool, selected

__all__ = ["Answer", "SandboxTool", "Status", "tools"]


class SandboxTool(BaseTool):
    """One tool of a sandbox. That of a Sandbox has `invoke` and `ainvoke`; that of an AsyncSandbox has `ainvoke`, in
    the sandbox's event loop.
    """

    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    tool: Tool
    sandbox: Sandbox | AsyncSandbox
    shown: int = SHOWN

    def invoke(
        self,
        input: str | dict[str, Any] | ToolCall,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        **kwargs: Any,  # noqa: ANN401 - LangChain's
    ) -> Any:  # noqa: ANN401 - a ToolMessage for a ToolCall, else its content
        """Carry out a call. Raises Conflict for a tool of an AsyncSandbox."""
        return _marked(super().invoke(input, config, **kwargs))

    async def ainvoke(
        self,
        input: str | dict[str, Any] | ToolCall,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        **kwargs: Any,  # noqa: ANN401 - LangChain's
    ) -> Any:  # noqa: ANN401 - as above
        """Carry out a call."""
        return _marked(await super().ainvoke(input, config, **kwargs))

    def _run(self, /, **arguments: Any) -> tuple[str, Answer]:  # noqa: ANN401 - a model's JSON
        if isinstance(self.sandbox, AsyncSandbox):
            raise Conflict("these are the tools of an AsyncSandbox", remedy="Use ainvoke, or make them of a Sandbox.")
        answer = call(self.tool, self.sandbox, arguments, self.shown)
        return answer.text, answer

    async def _arun(self, /, **arguments: Any) -> tuple[str, Answer]:  # noqa: ANN401 - a model's JSON
        if isinstance(self.sandbox, AsyncSandbox):
            answer = await call_async(self.tool, self.sandbox, arguments, self.shown)
        else:
            answer = await asyncio.to_thread(call, self.tool, self.sandbox, arguments, self.shown)
        return answer.text, answer


def tools(
    sandbox: Sandbox | AsyncSandbox, *, only: Iterable[str] | None = None, shown: int = SHOWN
) -> list[SandboxTool]:
    """The tools of a sandbox. only: their names. shown: characters of output that the model gets.

    Raises InvalidArgument for a name that is none.
    """
    return [
        SandboxTool(
            name=tool.name,
            description=tool.description,
            args_schema=tool.parameters,
            tool=tool,
            sandbox=sandbox,
            shown=shown,
        )
        for tool in selected(only)
    ]


def _marked(answered: Any) -> Any:  # noqa: ANN401 - as invoke gives it
    if isinstance(answered, ToolMessage) and isinstance(answered.artifact, Answer) and not answered.artifact.ok:
        answered.status = "error"
    return answered
