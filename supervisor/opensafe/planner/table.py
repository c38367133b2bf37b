"""The states of a run and the transitions between them, each with its name. The graph is made from this table alone.

Between two states there is at most one transition, since LangGraph draws no more than one edge between two nodes.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


class State(enum.StrEnum):
    """Where a run stands."""

    PLAN = "plan"
    GATE = "gate"
    AWAIT_REVIEW = "await_review"
    EXECUTE = "execute"
    OBSERVE = "observe"
    RETRY = "retry"
    ABORT = "abort"
    DONE = "done"


class Transition(enum.StrEnum):
    """Why a run goes from one state to the next."""

    CALL = "call"  # the model wants a tool call
    MALFORMED = "malformed"  # it wants one that can't be sent
    ANSWER = "answer"  # it answered without one
    ALLOW = "allow"  # policy allows the call
    REVIEW = "review"  # policy wants a person's word
    REFUSE = "refuse"  # policy, a reviewer or the daemon says no, and the model is told
    APPROVED = "approved"
    PENDING = "pending"  # nobody decided yet
    ENDED = "ended"  # the call has its outcome
    RESULT = "result"  # the model is told how its calls went
    NEXT = "next"  # it wanted several, and this was not the last
    FAILED = "failed"  # something that may pass
    ASK_AGAIN = "ask_again"  # the model
    SEND_AGAIN = "send_again"  # the call, under its id
    TRY_AGAIN = "try_again"  # what the retry itself needs
    TELL = "tell"  # it did not pass; the model may know another way
    STOP = "stop"  # the run can't or must not go on
    END = "end"


#: LangGraph's own name for the end.
FINISH: Final = "__end__"

TRANSITIONS: Final[Mapping[State, Mapping[Transition, str]]] = MappingProxyType(
    {
        State.PLAN: {
            Transition.CALL: State.GATE,
            Transition.MALFORMED: State.OBSERVE,
            Transition.ANSWER: State.DONE,
            Transition.FAILED: State.RETRY,
            Transition.STOP: State.ABORT,
        },
        State.GATE: {
            Transition.ALLOW: State.EXECUTE,
            Transition.REVIEW: State.AWAIT_REVIEW,
            Transition.REFUSE: State.OBSERVE,
            Transition.FAILED: State.RETRY,
            Transition.STOP: State.ABORT,
        },
        State.AWAIT_REVIEW: {
            Transition.APPROVED: State.EXECUTE,
            Transition.REFUSE: State.OBSERVE,
            Transition.PENDING: State.AWAIT_REVIEW,
            Transition.FAILED: State.RETRY,
            Transition.STOP: State.ABORT,
        },
        State.EXECUTE: {
            Transition.ENDED: State.OBSERVE,
            Transition.FAILED: State.RETRY,
            Transition.STOP: State.ABORT,
        },
        State.OBSERVE: {
            Transition.RESULT: State.PLAN,
            Transition.NEXT: State.GATE,
            Transition.STOP: State.ABORT,
        },
        State.RETRY: {
            Transition.ASK_AGAIN: State.PLAN,
            Transition.SEND_AGAIN: State.GATE,
            Transition.TRY_AGAIN: State.RETRY,
            Transition.TELL: State.OBSERVE,
            Transition.STOP: State.ABORT,
        },
        State.ABORT: {Transition.END: FINISH},
        State.DONE: {Transition.END: FINISH},
    }
)
