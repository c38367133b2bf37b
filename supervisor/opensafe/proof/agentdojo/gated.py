"""The daemon before AgentDojo's tools: each call begins with a permit, or does not run."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from opensafe.client import Client
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind

from .site import plain

_DONE: Final = Outcome(kind=OutcomeKind.EXITED, exit_code=0)

Approves = Callable[[str, Mapping[str, Any]], bool]


class Gated:
    """One session of the daemon's. approves: what the reviewer says of a parked call; nobody looks where it is None."""

    def __init__(self, agent: Client, reviewer: Client, session: str, approves: Approves | None) -> None:
        self._agent = agent
        self._reviewer = reviewer
        self._session = session
        self._approves = approves
        self._number = 0

    async def call(self, name: str, arguments: Mapping[str, Any], act: Callable[[], Awaitable[str]]) -> str | None:
        """Judge, and run where there is a permit. What is parked and not approved has not run."""
        self._number += 1
        asked = (self._session, f"call-{self._number}", name, plain(dict(arguments)))
        answer = await self._agent.begin(*asked)
        if answer.verdict.action is Action.REVIEW and self._approves is not None:
            review = await self._reviewer.get_review(answer.verdict.review_id)
            if review.arguments is not None and self._approves(review.tool, review.arguments):
                await self._reviewer.approve_review(review.review_id, review.digest)
                answer = await self._agent.begin(*asked)
            else:
                await self._reviewer.reject_review(review.review_id, "the task does not name it")
        if not answer.permit:
            return None
        result = await act()
        await self._agent.finish(self._session, answer.permit, _DONE)
        return result


@contextlib.asynccontextmanager
async def opened(agent: Client, reviewer: Client, approves: Approves | None) -> AsyncIterator[Gated]:
    """A session, closed at the end: what waits for a reviewer then waits no longer."""
    session = await agent.create_session("agentdojo")
    try:
        yield Gated(agent, reviewer, session, approves)
    finally:
        await agent.close_session(session)
