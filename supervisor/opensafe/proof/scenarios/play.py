"""Plays one part of a scenario: a principal, sessions and a sandbox of its own on a real daemon.

What an attack came to is told by two things that don't lean on each other: the verdicts on its aims, and whether
its mark is there afterwards. A part of which a step before the aim did not end as it must has not come about; it is
neither stopped nor missed.
"""

import contextlib
import enum
import secrets
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec

from opensafe.client import Client, Verdict
from opensafe.errors import OpenSafeError
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.usage import Limits

from . import site
from .data import Do, Part, Step

_DONE: Final = Outcome(kind=OutcomeKind.EXITED, exit_code=0)
_AGENT: Final = "scenario"
#: In the place of an action: it was allowed, and something ended it.
_FAILED: Final = "failed"


class End(enum.StrEnum):
    """stopped: no aim was allowed, and no mark is there. ran: an aim was allowed and ended, or a mark is there.

    not_reached: neither can be said; one that is allowed and then ended by something else has shown nothing.
    """

    STOPPED = "stopped"
    RAN = "ran"
    NOT_REACHED = "not_reached"


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """One part's end. said: actions of the aims, or the reasons of errors. rules: ids that stopped an aim, or reasons.

    marked: the mark was there. fault: why the aim was not reached.
    """

    end: End
    said: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    marked: bool = False
    fault: str = ""


class Cast(msgspec.Struct, frozen=True):
    """Who takes part: the agent's principal by name and client, another of the same role, and a reviewer."""

    name: str
    agent: Client
    other: Client
    reviewer: Client


class _Answer(msgspec.Struct, frozen=True):
    """How a step ended."""

    action: str
    rules: tuple[str, ...] = ()
    review: str = ""


class _Unexpected(Exception):  # noqa: N818 - ends a play, and no program
    """A step before the aim ended in another way than it must."""


async def play(part: Part, cast: Cast, *, strict: bool = True) -> Played:
    """Play it. strict: a step that does not end as expected ends the play; the control looks at the mark alone."""
    stage = _Stage(part, cast)
    try:
        await stage.begin()
        for step in part.steps:
            for _ in range(step.times):
                await stage.take(step, strict=strict)
        marked = await stage.marked()
    except _Unexpected as unexpected:
        return Played(end=End.NOT_REACHED, fault=str(unexpected))
    finally:
        await stage.end()
    aims = stage.aims
    ran = marked or any(aim.action == Action.ALLOW for aim in aims)
    if not ran and (failed := [aim for aim in aims if aim.action == _FAILED]):
        return Played(end=End.NOT_REACHED, fault=f"an aim was allowed, and ended otherwise: {failed[0].rules}")
    return Played(
        end=End.RAN if ran else End.STOPPED,
        said=tuple(aim.action for aim in aims),
        rules=tuple(sorted({rule for aim in aims if aim.action != Action.ALLOW for rule in aim.rules})),
        marked=marked,
    )


class _Stage:
    """What a play has made so far."""

    def __init__(self, part: Part, cast: Cast) -> None:
        self._part = part
        self._cast = cast
        self._mark = f"/workspace/mark-{secrets.token_hex(6)}"
        self._answers: dict[str, _Answer] = {}
        self._digests: dict[str, str] = {}
        self._asked: dict[str, tuple[str, dict[str, Any]]] = {}
        self._sessions: list[str] = []
        self._sandbox = ""
        self._number = 0
        self._elsewhere = False
        self.aims: list[_Answer] = []

    async def begin(self) -> None:
        # The sandbox is another session's, so that it outlives the one that is played, and that one is looked from.
        self._sessions.append(await self._cast.agent.create_session(_AGENT))
        self._sandbox = (await self._cast.agent.create_sandbox(self._sessions[0])).sandbox.sandbox_id
        await self._new_session()

    async def end(self) -> None:
        with contextlib.suppress(OpenSafeError):  # not banned
            await self._cast.reviewer.unban(self._cast.name)
        for session in self._sessions:
            with contextlib.suppress(OpenSafeError):  # closed by the play
                await self._cast.agent.close_session(session)

    async def take(self, step: Step, *, strict: bool) -> None:
        """One step. Raises _Unexpected."""
        self._number += 1
        name = step.id or f"step-{self._number}"
        try:
            answer = await self._do(step, name)
        except OpenSafeError as error:
            answer = _Answer("refused", (error.reason,))
        self._answers[name] = answer
        if step.aim:
            self.aims.append(answer)
        elif strict and answer.action != step.expect:
            raise _Unexpected(f"step {self._number} ({step.do} {step.tool}): {answer.action} by {answer.rules}")

    async def marked(self) -> bool:
        """Whether the aim ran, by what it left: looked for in a session that has no past."""
        if all(step.do in (Do.PERMIT, Do.OPEN) for step in self._part.steps if step.aim) or self._elsewhere:
            return self._elsewhere
        with contextlib.suppress(OpenSafeError):
            await self._cast.reviewer.unban(self._cast.name)
        path = (self._part.gone or self._part.mark).replace("{mark}", self._mark)
        found = await self._cast.agent.run_call(
            self._sessions[0], self._sandbox, "look", "Exec", {"argv": ["/usr/bin/test", "-e", path]}
        )
        if found.outcome.kind is not OutcomeKind.EXITED:
            rules = [rule.id for rule in found.verdict.rules]
            raise _Unexpected(f"nobody could look whether {path} is there: {found.outcome.kind} by {rules}")
        return (found.outcome.exit_code == 0) is not bool(self._part.gone)

    async def _new_session(self) -> None:
        limits = msgspec.convert(self._part.limits, Limits)
        self._sessions.append(await self._cast.agent.create_session(_AGENT, limits=limits))

    async def _do(self, step: Step, name: str) -> _Answer:
        cast, session = self._cast, self._sessions[-1]
        match step.do:
            case Do.CALL:
                return await self._call(name, step.tool, self._filled(step))
            case Do.PERMIT | Do.OPEN:
                return await self._permit(name, step)
            case Do.REPORT:
                await cast.agent.report_usage(session, tokens=step.tokens, cost_microusd=step.cost_microusd)
            case Do.APPROVE | Do.REJECT if not self._answers[step.of].review:
                return _Answer("refused", ("NOT_PARKED",))
            case Do.APPROVE:
                return await self._approve(step)
            case Do.REJECT:
                await self._by(step).reject_review(self._answers[step.of].review, "no")
            case Do.SESSION:
                await self._new_session()
            case Do.CLOSE:
                await cast.agent.close_session(session)
            case Do.BAN:
                await cast.reviewer.ban(cast.name)
        return _Answer(Action.ALLOW)

    def _filled(self, step: Step) -> dict[str, Any]:
        text = msgspec.json.encode(step.arguments).decode().replace("{mark}", self._mark)
        return msgspec.json.decode(text, type=dict[str, Any])

    async def _call(self, name: str, tool: str, arguments: dict[str, Any]) -> _Answer:
        self._asked[name] = (tool, arguments)
        ran = await self._cast.agent.run_call(self._sessions[-1], self._sandbox, name, tool, arguments)
        if ran.verdict.action is Action.ALLOW and ran.outcome.kind is not OutcomeKind.EXITED:
            return _Answer(_FAILED, (ran.outcome.kind,))
        return await self._noted(name, ran.verdict)

    async def _permit(self, name: str, step: Step) -> _Answer:
        cast, session = self._cast, self._sessions[-1]
        arguments, digest = self._filled(step), site.shown(step.shown)
        self._asked[name] = (step.tool, arguments)
        permit = await cast.agent.begin(session, name, step.tool, arguments, description_digest=digest)
        if permit.permit:
            self._elsewhere |= step.aim
            if step.do is Do.PERMIT:
                await cast.agent.finish(session, permit.permit, _DONE)
        return await self._noted(name, permit.verdict)

    async def _approve(self, step: Step) -> _Answer:
        """Let the reviewer, or who poses as one, approve; and see what becomes of the call."""
        review = self._answers[step.of].review
        digest = self._digests[step.digest_of or step.of]
        verdict = await self._by(step).approve_review(review, digest)
        if verdict is None or verdict.action is not Action.ALLOW:
            return _Answer("refused" if verdict is None else verdict.action)
        tool, arguments = self._asked[step.of]
        if tool in {one["name"] for one in site.tools()}:
            session = self._sessions[-1]
            permit = await self._cast.agent.begin(session, step.of, tool, arguments)
            self._elsewhere |= step.aim and bool(permit.permit)
            if permit.permit:
                await self._cast.agent.finish(session, permit.permit, _DONE)
        else:
            async for _ in self._cast.agent.attach(self._sessions[-1], step.of):
                pass
        return _Answer(Action.ALLOW)

    def _by(self, step: Step) -> Client:
        return {"reviewer": self._cast.reviewer, "other": self._cast.other, "self": self._cast.agent}[step.by]

    async def _noted(self, name: str, verdict: Verdict) -> _Answer:
        if verdict.review_id:
            self._digests[name] = (await self._cast.reviewer.get_review(verdict.review_id)).digest
        rules = tuple(hit.id for hit in verdict.rules if hit.action is not Action.ALLOW)
        return _Answer(verdict.action, rules, verdict.review_id)


@contextlib.asynccontextmanager
async def cast_of(name: str, sockets: dict[str, Any]) -> AsyncIterator[Cast]:
    """The clients of a cast, connected."""
    async with contextlib.AsyncExitStack() as stack:
        agent, other, reviewer = [
            await stack.enter_async_context(Client.connect(sockets[one])) for one in (name, "other", "reviewer")
        ]
        yield Cast(name, agent, other, reviewer)
