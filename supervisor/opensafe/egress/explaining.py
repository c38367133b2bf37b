"""What the gateway would say to a sandbox that goes for a host, without anybody going there.

The questions are those that DNS responder and Envoy would ask, and the judge is the one that answers them. Nothing is
resolved: whether the name leads to an address that may be dialled is seen only when it is.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final, Self

import msgspec

from opensafe.config import EgressSettings
from opensafe.model.calls import Principal
from opensafe.model.connection import Connection
from opensafe.model.facts import ClassTables
from opensafe.model.policy_input import BudgetInput, SessionInput
from opensafe.model.traffic import Layer
from opensafe.normalize.urls import HostClassifier, is_address
from opensafe.policy.engine import Engine
from opensafe.warden.feed import Call

from . import names
from .callers import GRANTED, Callers, Where
from .judge import EgressJudge, Question
from .reports import Reports

#: The layer that each port of the gateway is served on.
SERVED: Final = {443: "tls", 80: "http"}
_NOBODY: Final = "0.0.0.0"  # noqa: S104 - a source that no sandbox has, and nothing is bound to it


class Explainer:
    """Weighs; tells nobody."""

    def __init__(self, judge: EgressJudge, terminated: Collection[str] = ()) -> None:
        """judge: the one that is explained. terminated: hosts to which TLS ends in the gateway."""
        self._judge = judge
        self._terminated = frozenset(terminated)

    @classmethod
    def of(cls, settings: EgressSettings) -> Self:
        """With a judge that stands for the helper's, where there are no connections."""
        terminated = [one.name for one in settings.terminate]
        proxy = settings.proxy.host if settings.proxy is not None else ""
        return cls(EgressJudge(Callers(), Reports(_ignored), terminated=terminated, proxy=proxy), terminated)

    def layers(
        self, engine: Engine | None, name: str, port: int | None, where: Where, charge: Callable[[Question], Question]
    ) -> tuple[Layer, ...]:
        """The verdict on each layer that going there would pass.

        name: canonical. port: None for each that is served. charge: adds to a question what was used so far.
        """
        return tuple(
            Layer(layer=question.layer, port=question.port, allowed=verdict.allowed, rules=verdict.hits)
            for question in _questions(name, port, inside=name in self._terminated)
            for verdict in (self._judge.weigh(engine, charge(question), where),)
        )


def supposed(principal: Principal, name: str, session: SessionInput, budget: BudgetInput) -> Where:
    """A sandbox in which one call runs, which was granted the name."""
    call = Call(
        exec_id="",
        decision_id="",
        call_id="",
        session_id=session.id,
        tool="Bash",
        digest="",
        trace_id="",
        principal=principal,
        agent=session.agent,
        profile="default",
        programs=None,
        network=(name,),
        session=session,
        budget=budget,
    )
    grant = HostClassifier(ClassTables(hosts={GRANTED: call.network}))
    return Where(sandbox_id="", template="base", call=call, grant=grant)


def _questions(name: str, port: int | None, *, inside: bool) -> Iterator[Question]:
    """inside: requests in TLS are seen."""
    going = Question(source=_NOBODY, layer="dns", name=name, label=names.measure(name) | {"names": 1})
    request = msgspec.structs.replace(going, layer="http", authority=name, method="GET", path="/")
    if not is_address(name):  # nobody asks for the address of one
        yield going
    for number in SERVED if port is None else (port,):
        match SERVED.get(number, "tcp"):
            case "http":
                yield msgspec.structs.replace(request, port=number)
            case "tls":
                yield msgspec.structs.replace(going, layer="tls", port=number, sni=name)
                if inside:
                    yield msgspec.structs.replace(request, port=number, sni=name)
            case layer:
                yield msgspec.structs.replace(going, layer=layer, port=number)


def _ignored(_connection: Connection) -> None:
    pass
