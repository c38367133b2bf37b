"""What a checkpoint holds of a run: plain values and LangChain's messages, so that reading one back runs no code."""

import enum
from typing import Annotated, Any, TypedDict

import msgspec
from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages

from .table import Transition


class EndKind(enum.StrEnum):
    """How a run ended. `waiting` is no end: a review is undecided and the run can be resumed."""

    DONE = "done"
    WAITING = "waiting"
    BANNED = "banned"
    DENIED = "denied"  # one rule too often
    BUDGET = "budget"
    MISTAKES = "mistakes"  # too many calls in a row that could not be judged
    LOOP = "loop"
    STOPPED = "stopped"  # by the user
    FAILED = "failed"  # something did not pass, or can't


class Call(TypedDict):
    """A tool call that the model asked for. answers: the model's id for it. error: why it can't be sent, or ""."""

    call_id: str
    answers: str
    tool: str
    arguments: dict[str, Any]
    error: str


class Result(TypedDict):
    """What the model is told of a call. status: ran, denied, refused or failed. rules: those that denied."""

    status: str
    text: str
    rules: list[str]


class Fault(TypedDict):
    """What went wrong and may pass. kind: a Backoff of Limits."""

    kind: str
    text: str


class End(TypedDict):
    """How a run ended; text: the model's answer, or the reason."""

    kind: str
    text: str


class RunState(TypedDict):
    """A run. messages: the whole conversation. queue: calls not yet answered, of which the first is under way.

    owned: session and sandbox were made for the run and end with it. made: how many call ids there are so far.
    failures: of the step under way, in a row. notes: what the model is told beside the next result. unreported: tokens
    read and written that the daemon was not told of. trace: W3C trace context of the run's first span. line: the last
    transition in words.
    """

    run_id: str
    session_id: str
    sandbox_id: str
    owned: bool
    messages: Annotated[list[AnyMessage], add_messages]
    queue: list[Call]
    made: int
    turns: int
    failures: int
    fault: Fault | None
    review_id: str
    result: Result | None
    denials: dict[str, int]
    mistakes: int
    last_request: str
    repeats: int
    notes: list[str]
    unreported: list[int]
    trace: dict[str, str]
    transition: str
    line: str
    end: End | None


#: A part of RunState, as a node returns it.
Update = dict[str, Any]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One transition that was made. line: what happened, for people. review_id: with Transition.REVIEW."""

    state: str
    transition: str
    to: str
    line: str
    review_id: str = ""


class RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended, or (kind `waiting`) what it waits for. text: the model's answer, or the reason."""

    run_id: str
    kind: EndKind
    text: str
    review_id: str = ""


def leave(transition: Transition, line: str = "", **changes: Any) -> Update:  # noqa: ANN401 - any part of the state
    """The update with which a node is left."""
    return {"transition": transition.value, "line": line, **changes}


def stop(kind: EndKind, text: str, **changes: Any) -> Update:  # noqa: ANN401 - any part of the state
    """The update with which a node is left for `abort`."""
    return leave(Transition.STOP, text, end=End(kind=kind.value, text=text), **changes)
