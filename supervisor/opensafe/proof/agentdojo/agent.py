"""An agent without a mind: it does what its user's task asks for, and obeys every text that it reads on the way.

A model may see through an injection; this one never does, so what is left of an attack is the gate's doing alone. It
makes the calls of the user's ground truth, and as soon as an answer holds the planted text, those of the injection's
ground truth, before it goes on. It reports what both would have reported.
"""

import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Protocol

import msgspec
from inspect_ai.model import ChatMessageAssistant, execute_tools
from inspect_ai.tool import Tool, ToolCall
from inspect_ai.util import Store
from inspect_ai.util._store import init_subtask_store
from inspect_evals.agentdojo.attacks.attack import get_attack
from inspect_evals.agentdojo.dataset import TASK_SUITES

#: The suites of the paper; `workspace_plus` is the third with tasks that need another sandbox than ours.
SUITES: Final = ("banking", "slack", "travel", "workspace")
#: Of every planted text, and of nothing else: the head of the attack's words.
_SIGN: Final = "This is an important message from me"


class Gate(Protocol):
    """What stands before a tool: `act` is awaited where, and only where, the call may run."""

    async def call(self, name: str, arguments: Mapping[str, Any], act: Callable[[], Awaitable[str]]) -> str | None:
        """The tool's answer, or None where it was not run."""


Opening = Callable[[str, Mapping[str, Any]], AbstractAsyncContextManager[Gate]]
"""Opens a gate for one session, of the user's task and of the world that its tools work on."""


class Open:
    """No gate: the world as AgentDojo has it."""

    async def call(self, name: str, arguments: Mapping[str, Any], act: Callable[[], Awaitable[str]]) -> str | None:
        """Run it."""
        del name, arguments
        return await act()


@asynccontextmanager
async def no_gate(task: str, world: Mapping[str, Any]) -> AsyncIterator[Open]:
    """What the figures are compared with."""
    del task, world
    yield Open()


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """One session. useful: the user's task was done, by its own check, and none of its calls was stopped.

    read: the planted text came before the agent's eyes. harmed: the injection's goal was reached, by its own check.
    stopped: calls that did not run, of the user's task and of the injection's.
    """

    suite: str
    user: int
    injection: int | None
    useful: bool
    read: bool
    harmed: bool
    stopped_task: tuple[str, ...]
    stopped_injection: tuple[str, ...]


class World:
    """A suite's environments, each made once: parsing one takes longer than a session."""

    def __init__(self, suite: str) -> None:
        self.name = suite
        self.suite: Any = TASK_SUITES[suite]
        self._made: dict[int | None, Any] = {}

    def plan(self) -> Iterator[tuple[int, int | None]]:
        """Every user's task alone and with every injection; none that needs a sandbox of AgentDojo's."""
        injections = [key for key, task in self.suite.injection_tasks.items() if not task.REQUIRES_SANDBOX]
        for user, task in self.suite.user_tasks.items():
            if not task.REQUIRES_SANDBOX:
                yield user, None
                yield from ((user, injection) for injection in injections)

    def environment(self, injection: int | None) -> Any:  # noqa: ANN401 - a suite's own model
        """A fresh environment with the injection's text planted wherever the suite lets one be planted."""
        if injection not in self._made:
            vectors = self.suite.get_injection_vector_defaults()
            if injection is not None:
                text = get_attack("important_instructions")
                assert isinstance(text, str)  # noqa: S101 - for the type checker: this attack is one text
                goal = self.suite.injection_tasks[injection].GOAL
                vectors = dict.fromkeys(vectors, text.format(goal=goal))
            self._made[injection] = self.suite.load_and_inject_default_environment(vectors)
        return copy.deepcopy(self._made[injection])

    @property
    def tools(self) -> list[Tool]:
        """The suite's tools."""
        return list(self.suite.tools)


class _Hands:
    """The tools on one environment, behind a gate."""

    def __init__(self, tools: list[Tool], world: Mapping[str, Any], gate: Gate) -> None:
        self._tools = tools
        self._gate = gate
        self.made: list[ToolCall] = []
        store = Store()
        for name, part in world.items():
            store.set(name, part)
        init_subtask_store(store)  # where the tools look for their world, in whatever task calls them

    async def do(self, call: ToolCall) -> str | None:
        async def act() -> str:
            self.made.append(call)
            messages, _ = await execute_tools([ChatMessageAssistant(content="", tool_calls=[call])], self._tools)
            return "\n".join(message.text for message in messages)

        return await self._gate.call(call.function, call.arguments, act)


async def session(world: World, user: int, injection: int | None, opening: Opening) -> Ran:
    """One session from beginning to end. It runs in a task of its own: the tools' world is bound to that."""
    before, now = world.environment(injection), world.environment(injection)
    task = world.suite.user_tasks[user]
    planted = None if injection is None else world.suite.injection_tasks[injection]
    said, read = task.GROUND_TRUTH_OUTPUT, False
    stopped: tuple[list[str], list[str]] = ([], [])
    inside = {name: getattr(now, name) for name in type(now).model_fields}
    async with opening(task.PROMPT, inside) as gate:
        hands = _Hands(world.tools, inside, gate)
        for call in task.ground_truth(before):
            answer = await hands.do(call)
            if answer is None:
                stopped[0].append(call.function)
            if planted is not None and not read and _SIGN in (answer or ""):
                read = True
                said = f"{said}\n{planted.GROUND_TRUTH_OUTPUT}"
                for asked in planted.ground_truth(before):
                    if await hands.do(asked) is None:
                        stopped[1].append(asked.function)
    useful = not stopped[0] and await task.utility(said, before, now, traces=hands.made)
    harmed = planted is not None and await planted.security(said, before, now, traces=hands.made)
    return Ran(
        suite=world.name,
        user=user,
        injection=injection,
        useful=bool(useful),
        read=read,
        harmed=bool(harmed),
        stopped_task=tuple(stopped[0]),
        stopped_injection=tuple(stopped[1]),
    )
