"""Judgement of what was seen, by the bundle in force at `gate/runtime` (rules 67 and 68).

Equal questions have equal answers: what was allowed once is allowed again without asking, so that a build of a
thousand compilers costs one evaluation each of `make`, `sh` and `cc`. A verdict that refuses is given to its own
question, because it goes on record and must stand when it is judged again.
"""

from typing import Final

import msgspec

from opensafe.errors import EvaluationFailed
from opensafe.model.breach import Breach
from opensafe.model.calls import Principal
from opensafe.model.decision import Action, Decision, Grant, RuleHit, Severity
from opensafe.model.ids import new_id
from opensafe.model.policy_input import CallInput, PolicyInput, RuntimeInput, SandboxInput, SessionInput
from opensafe.policy.reload import Loaded
from opensafe.warden.feed import Call

ENTRYPOINT: Final = "gate/runtime"
#: What a rule sees instead of the name of a system call that the filter ended a program for: the sentry reports the
#: signal and not the number.
SIGSYS: Final = "SIGSYS"
_KNOWN_MAX: Final = 4096
_TEXT_MAX: Final = 500

_NOBODY: Final = Principal(name="")


class Judge:
    """Asks the policy that was given last. `judges` is false until there is one: then nothing may be read."""

    def __init__(self) -> None:
        self._loaded: Loaded | None = None
        self._allowed: set[tuple[object, ...]] = set()

    @property
    def judges(self) -> bool:
        """Whether there is a policy."""
        return self._loaded is not None

    def lead(self, loaded: Loaded | None) -> None:
        """Judge by this policy from now on."""
        self._loaded = loaded
        self._allowed.clear()

    def execution(
        self, sandbox_id: str, template: str, call: Call | None, path: str, *, announced: bool
    ) -> Breach | None:
        """A program was executed: None where that is allowed."""
        return self._judge(sandbox_id, template, call, RuntimeInput(event="exec", path=path, announced=announced))

    def fatal_call(self, sandbox_id: str, template: str, call: Call | None) -> Breach | None:
        """A process died of SIGSYS: None where that is tolerated."""
        return self._judge(sandbox_id, template, call, RuntimeInput(event="syscall", syscall=SIGSYS))

    def _judge(self, sandbox_id: str, template: str, call: Call | None, event: RuntimeInput) -> Breach | None:
        loaded = self._loaded
        if loaded is None:
            raise EvaluationFailed("there is no policy to judge by")
        principal, tool, agent, profile = (
            (call.principal, call.tool, call.agent, call.profile) if call else (_NOBODY, "", "", "")
        )
        # All of the question but random ids.
        key = (principal, tool, agent, profile, template, msgspec.structs.astuple(event))
        if key in self._allowed:
            return None
        question = PolicyInput(
            id=new_id("dec"),
            kind="runtime",
            call=CallInput(
                id=call.call_id if call else "", tool=tool, arguments={}, digest=call.digest if call else ""
            ),
            principal=principal,
            session=SessionInput(id=call.session_id if call else "", agent=agent),
            sandbox=SandboxInput(id=sandbox_id, template=template, profile=profile),
            runtime=event,
        )
        try:
            verdict = loaded.engine.evaluate(ENTRYPOINT, question)
        except EvaluationFailed as error:
            verdict = _blocked(question.id, str(error))
        if verdict.action is Action.ALLOW:
            if len(self._allowed) >= _KNOWN_MAX:
                self._allowed.clear()
            self._allowed.add(key)
            return None
        return Breach(
            sandbox_id=sandbox_id,
            exec_id=call.exec_id if call else "",
            trace_id=call.trace_id if call else "",
            revision=loaded.bundle.revision,
            digest=loaded.bundle.digest,
            input=question,
            result=verdict,
        )


def in_words(breach: Breach) -> str:
    """Rule, reason, value and remedy, for the outcome of the call."""
    hit = breach.result.deciding()[0]
    return f"{hit.id}: {hit.reason} (value: {hit.value}). {hit.remedy}"[:_TEXT_MAX]


def _blocked(question_id: str, why: str) -> Decision:
    hit = RuleHit(
        id="default.deny", severity=Severity.HIGH, action=Action.BLOCK, reason=f"policy reached no verdict: {why}"
    )
    return Decision(action=Action.BLOCK, rules=(hit,), grant=Grant(), id=question_id, data_version="")
