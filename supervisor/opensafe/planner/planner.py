"""Runs: begun, gone on with, stopped. Each is a thread of the graph, and its id is all that is needed to resume it."""

import contextlib
import pathlib
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any, Final, Self, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START
from langgraph.types import Command
from opentelemetry.trace import TracerProvider, get_tracer

from opensafe import __version__
from opensafe.client import Client
from opensafe.errors import Conflict, InvalidArgument, NotFound, OpenSafeError

from . import runs
from .calls import Calls
from .door import Door, Stop
from .graph import build
from .limits import Limits
from .state import EndKind, RunEnd, RunState, Step
from .table import TRANSITIONS, State, Transition
from .tools import TOOLS
from .tracing import first_span

#: What a model is told before the task.
SYSTEM: Final = (
    "You work in a sandbox through tools. Every call is judged by a policy first. A denial names the rule, the value "
    "and a remedy: follow the remedy or find another way, and do not send the same call again. A call that needs a "
    "reviewer may take a while. When the task is done, or can't be, answer without a call."
)
#: Supersteps: LangGraph's own limit must not end a run before its budgets do.
_UNLIMITED: Final = 10**9


def new_run_id() -> str:
    """A fresh id: `run-` and 16 hexadecimal digits."""
    return f"run-{secrets.token_hex(8)}"


class Planner:
    """Runs tasks with one model over one client. One run at a time goes on in it.

    await_reviews: wait for reviewers; else a run that needs one ends its steps with `waiting`, to be resumed.
    """

    def __init__(
        self,
        client: Client,
        model: BaseChatModel,
        checkpointer: BaseCheckpointSaver[str],
        *,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        await_reviews: bool = True,
        agent: str = "planner",
        template: str = "",
        system: str = SYSTEM,
        tools: Sequence[Mapping[str, Any]] = TOOLS,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        """agent: the session's name. template: the sandboxes' runner image. tools: offered to the model.

        Raises InvalidArgument where the model can't call tools.
        """
        self._client = client
        self._agent, self._template, self._system = agent, template, system
        self._graph = build(checkpointer)
        self._stop = Stop()
        self._tracer = get_tracer("opensafe.planner", __version__, tracer_provider)
        try:
            bound = model.bind_tools([dict(tool) for tool in tools])
        except NotImplementedError:
            raise InvalidArgument("the model can't call tools", value=type(model).__name__) from None
        self._door = Door(
            client=client,
            model=cast(Any, bound),  # a model's input type is wider than the messages that it is given
            limits=limits,
            tracer=self._tracer,
            calls=Calls(client),
            stop=self._stop,
            await_reviews=await_reviews,
            template=template,
        )

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        client: Client,
        model: BaseChatModel,
        path: str | pathlib.Path,
        **options: Any,  # noqa: ANN401 - of __init__
    ) -> AsyncIterator[Self]:
        """A planner whose runs are kept in the SQLite database at `path`. options: as of the class."""
        async with runs.saver(path) as checkpointer:
            yield cls(client, model, checkpointer, **options)

    async def run(self, task: str) -> RunEnd:
        """Begin a run and go on to its end, or to a review where those are not awaited."""
        return await self.resume(await self.begin(task))

    async def resume(self, run_id: str) -> RunEnd:
        """Go on with a run. One that ended is not touched: its end is given again. Raises NotFound."""
        async for _ in self.steps(run_id):
            pass
        return await self.end(run_id)

    async def begin(self, task: str, *, run_id: str = "", sandbox: tuple[str, str] | None = None) -> str:
        """Make a run with its session and sandbox, which end with it; its id. Nothing of the task happens yet.

        sandbox: session and sandbox to use instead, which stay. Raises what making them raises, Conflict for a used id.
        """
        run_id = run_id or new_run_id()
        config = _config(run_id)
        if (await self._graph.aget_state(config)).values:
            raise Conflict("there is a run of that id", value=run_id)
        with first_span(self._tracer, run_id) as trace:
            session_id, sandbox_id = sandbox or await self._place(run_id)
        state = RunState(
            run_id=run_id,
            session_id=session_id,
            sandbox_id=sandbox_id,
            owned=sandbox is None,
            messages=[SystemMessage(self._system), HumanMessage(task)],
            queue=[],
            made=0,
            turns=0,
            failures=0,
            fault=None,
            review_id="",
            result=None,
            denials={},
            mistakes=0,
            last_request="",
            repeats=0,
            notes=[],
            unreported=[0, 0],
            trace=trace,
            transition="",
            line="",
            end=None,
        )
        await self._graph.aupdate_state(config, cast(Any, state), as_node=START)
        return run_id

    async def _place(self, run_id: str) -> tuple[str, str]:
        """A session and a sandbox for a run."""
        session_id = await self._client.create_session(self._agent, run_id)
        try:
            return session_id, (await self._client.create_sandbox(session_id, self._template)).sandbox_id
        except BaseException:
            with contextlib.suppress(OpenSafeError):
                await self._client.close_session(session_id)
            raise

    async def steps(self, run_id: str) -> AsyncIterator[Step]:
        """Go on with a run, and tell each transition. Raises NotFound.

        Leaving early leaves the run as it is: it can be resumed, and a call under way goes on.
        """
        config = _config(run_id)
        found = await self._graph.aget_state(config)
        if not found.values:
            raise NotFound("there is no such run here", value=run_id)
        if not found.next:
            return
        resumed: Command[str] | None = Command(resume=True) if found.interrupts else None
        stream = self._graph.astream(resumed, config, context=self._door, stream_mode="updates", durability="sync")
        try:
            async with contextlib.aclosing(cast(AsyncGenerator[dict[str, Any], None], stream)) as parts:
                async for part in parts:
                    for name, update in part.items():
                        if name in TRANSITIONS:  # and no interrupt, which `end` tells
                            yield _step(name, update)
        finally:
            await self._door.calls.close()

    async def end(self, run_id: str) -> RunEnd:
        """How a run ended, or what it waits for. Raises NotFound, and Conflict for one that is under way."""
        found = await self._graph.aget_state(_config(run_id))
        if not found.values:
            raise NotFound("there is no such run here", value=run_id)
        state = cast(RunState, found.values)
        if found.interrupts:
            review = state["review_id"]
            return RunEnd(run_id=run_id, kind=EndKind.WAITING, text=f"review {review}", review_id=review)
        end = state["end"]
        if found.next or end is None:
            raise Conflict("the run has not ended", value=run_id, remedy="Resume it.")
        return RunEnd(run_id=run_id, kind=EndKind(end["kind"]), text=end["text"])

    async def state(self, run_id: str) -> RunState:
        """What the last checkpoint holds. Raises NotFound."""
        found = await self._graph.aget_state(_config(run_id))
        if not found.values:
            raise NotFound("there is no such run here", value=run_id)
        return cast(RunState, found.values)

    def stop(self, reason: str = "stopped by the user") -> None:
        """End the run that goes on: what it waits for is given up, its call is ended, and it can't be resumed."""
        self._stop.reason = self._stop.reason or reason
        self._stop.asked.set()


def _config(run_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": run_id}, "recursion_limit": _UNLIMITED}


def _step(name: str, update: Mapping[str, Any]) -> Step:
    transition = Transition(update["transition"])
    review = update["review_id"] if transition is Transition.REVIEW else ""
    return Step(
        state=name,
        transition=transition.value,
        to=str(TRANSITIONS[State(name)][transition]),
        line=update["line"],
        review_id=review,
    )
