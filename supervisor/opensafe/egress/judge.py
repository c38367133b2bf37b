"""Judgement of connections and DNS questions, by the bundle in force at `gate/egress`.

What is asked about came from a guest. It is read by the parser that lint and gate use, and what that can't read as
exactly one host is refused; so is whatever cannot be judged, and what would need a review, since no connection can be
parked. Each verdict is reported once.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final

import msgspec

from opensafe.errors import EvaluationFailed
from opensafe.model.connection import Connection
from opensafe.model.decision import Action, Decision, RuleHit, Severity
from opensafe.model.facts import ClassTables, HostFact
from opensafe.model.ids import new_id, now_us
from opensafe.model.policy_input import BudgetInput, CallInput, EgressInput, PolicyInput, SandboxInput
from opensafe.normalize.urls import canonical_name, parse_host
from opensafe.policy.engine import Engine
from opensafe.policy.reload import Loaded
from opensafe.warden.feed import Call

from .callers import GRANTED, Callers, Where
from .names import Asked, measure
from .reports import Reports

ENTRYPOINT: Final = "gate/egress"
_DENY: Final = "default.deny"
_NOT_GRANTED: Final = "egress.domain.allowlist"
_UPGRADE: Final = "egress.upgrade.deny"
#: Hosts that may change an HTTP connection's protocol, in the site's data.
_UPGRADES: Final = "websocket"
_LAYERS: Final = frozenset({"dns", "tls", "http", "tcp"})
#: What ends an authority: a program that reads on would reach another host than the one that was judged.
_BEHIND: Final = frozenset("/?#")
_TEXT_MAX: Final = 500
_RULES_MAX: Final = 16


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a sandbox wants, as the gateway saw it.

    source: its address. layer: dns, tls, http or tcp. name: as the client sent it. sni, authority, method, path,
    upgrade, credential: where the layer has them. address: where it would be dialled, where that is known. label: as
    in EgressInput.
    bytes_sent, bytes_received: of this connection so far. requests, session_sent, session_received: of its session in
    all, as they were counted here; host_requests, host_sent, host_received: with this host. The connection itself is
    among the session's bytes alone. again: it was allowed before, so an allow is not put on record.
    """

    source: str
    layer: str
    name: str
    port: int | None = None
    sni: str = ""
    authority: str = ""
    method: str = ""
    path: str = ""
    upgrade: str = ""
    credential: str = ""
    address: str = ""
    label: dict[str, int] = {}
    bytes_sent: int = 0
    bytes_received: int = 0
    requests: int = 0
    session_sent: int = 0
    session_received: int = 0
    host_requests: int = 0
    host_sent: int = 0
    host_received: int = 0
    again: bool = False


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict. name: canonical, "" where there is none. why: rule, value and remedy in one line, of a refusal.

    rules: that decided. holder: whose the grant is, see callers.Where.
    """

    allowed: bool
    name: str = ""
    exec_id: str = ""
    sandbox_id: str = ""
    why: str = ""
    rules: tuple[str, ...] = ()
    holder: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a question. name: canonical, "" where there is none. hits: what decided, at least
    one of a refusal.
    """

    allowed: bool
    name: str
    hits: tuple[RuleHit, ...]

    @property
    def rules(self) -> tuple[str, ...]:
        """Ids, for the record."""
        return tuple(hit.id for hit in self.hits)[:_RULES_MAX]

    @property
    def reason(self) -> str:
        """Of a refusal, for the record."""
        return "" if self.allowed else self.hits[0].reason

    @property
    def why(self) -> str:
        """Of a refusal, for the client: rule, reason, value and remedy in one line."""
        if self.allowed:
            return ""
        hit = self.hits[0]
        value = "" if hit.value in hit.reason else f" ({hit.value})"
        return " ".join(f"{hit.id}: {hit.reason}{value}. {hit.remedy}".split())[:_TEXT_MAX]


#: What else stands in the way of what policy allows, as "rule: reason"; "" where nothing does.
Bar = Callable[[Answer], str]


def unbarred(_answer: Answer) -> str:
    """Policy alone decides."""
    return ""


class _RefusedError(Exception):
    """Refused before policy could be asked: rule, reason, value and remedy."""

    def __init__(self, rule: str, reason: str, value: str, remedy: str) -> None:
        super().__init__(reason)
        self.hit = _refusal(rule, reason, value, remedy)


def _nothing(_session_id: str) -> Mapping[str, int]:
    return {}


def _in_time() -> bool:
    return False


class EgressJudge:
    """Asks the policy that was given last; without one, nothing is allowed."""

    def __init__(
        self,
        callers: Callers,
        reports: Reports,
        *,
        used: Callable[[str], Mapping[str, int]] = _nothing,
        behind: Callable[[], bool] = _in_time,
        terminated: Collection[str] = (),
        proxy: str = "",
        asked: Asked | None = None,
    ) -> None:
        """used: what a session has used beside its call's budget and the question's own figures, under budget keys.

        behind: whether what is let out could not be put on record now. terminated: hosts to which TLS ends in the
        gateway. proxy: the site's own, through which all goes and which no guest may name. asked: the names that each
        session has asked for so far, in whichever layer.
        """
        self._asked = asked or Asked()
        self._proxy = canonical_name(proxy) or proxy
        self._terminated = frozenset(terminated)
        self._callers = callers
        self._reports = reports
        self._used = used
        self._behind = behind
        self._loaded: Loaded | None = None

    def lead(self, loaded: Loaded | None) -> None:
        """Judge by this policy from now on."""
        self._loaded = loaded

    def judge(self, question: Question, bar: Bar = unbarred) -> Answer:
        """The verdict, on record as it is after `bar`, which hears of what policy allows. Raises what that raises."""
        where = self._callers.at(question.source)
        if self._behind() and not question.again:
            hit = _refusal(_DENY, "records wait to be written", question.name, "Try again later.")
            verdict = Verdict(allowed=False, name="", hits=(hit,))
        else:
            verdict = self.weigh(self._loaded.engine if self._loaded is not None else None, question, where)
        where = where.of(verdict.name) if where is not None else None
        judged_us = now_us()  # before it begins, as its end says
        answer = Answer(
            allowed=verdict.allowed,
            name=verdict.name,
            exec_id=where.call.exec_id if where is not None and where.call is not None else "",
            sandbox_id=where.sandbox_id if where is not None else "",
            why=verdict.why,
            rules=verdict.rules,
            holder=where.holder if where is not None else "",
        )
        if answer.allowed and (why := bar(answer)):
            verdict = _barred(why, question, verdict.name)
            answer = msgspec.structs.replace(answer, allowed=False, why=why, rules=verdict.rules)
        self._record(question, where, verdict, judged_us)
        return answer

    def refuse(self, question: Question, why: str) -> None:
        """Put on record what is refused before policy is asked. why: as a Bar has it."""
        self._record(question, self._callers.at(question.source), _barred(why, question, ""), now_us())

    def weigh(self, engine: Engine | None, question: Question, where: Where | None) -> Verdict:
        """What this policy says of a question from there, which nobody is told. Never raises."""
        name = ""
        try:
            tables = engine.tables if engine is not None else ClassTables()
            host = _host(question, tables)
            name = host.name
            decision = self._ask(engine, question, where, host, tables)
            allowed, hits = decision.action is Action.ALLOW, decision.deciding()
            if not allowed and not hits:
                raise EvaluationFailed("no rule says why")
        except _RefusedError as refused:
            return Verdict(allowed=False, name=name, hits=(refused.hit,))
        except Exception as error:  # noqa: BLE001 - whatever a guest's strings bring about, the answer is no
            why = f"policy reached no verdict: {error if isinstance(error, EvaluationFailed) else type(error).__name__}"
            hit = _refusal(_DENY, why, question.name, "Report it to the operator.")
            return Verdict(allowed=False, name=name, hits=(hit,))
        return Verdict(allowed=allowed, name=name, hits=hits)

    def _ask(
        self, engine: Engine | None, question: Question, where: Where | None, host: HostFact, tables: ClassTables
    ) -> Decision:
        if engine is None:
            raise _RefusedError(_DENY, "there is no policy to judge by", host.name, "Try again later.")
        if where is None:
            raise _RefusedError(_DENY, "no sandbox speaks from this address", question.source, "Report it.")
        if self._proxy and host.name == self._proxy:
            raise _RefusedError(_DENY, "this is the site's own proxy", host.name, "Name the host that it leads to.")
        if question.upgrade and _UPGRADES not in tables.hosts:  # a bundle from before there was a rule on it
            remedy = f"Have the host listed in hosts.{_UPGRADES} of the site's policy data."
            raise _RefusedError(_UPGRADE, "policy knows of no change of protocol", host.name, remedy)
        where = where.of(host.name)
        call, session = where.call, where.session
        session = call.session if call is not None and session is None else session
        if call is None or session is None:
            remedy = "Name the host literally in the call that needs it, and run nothing beside that call."
            raise _RefusedError(_NOT_GRANTED, "no running call alone has a grant for the network", host.name, remedy)
        asked = PolicyInput(
            id=new_id("dec"),
            kind="egress",
            call=CallInput(id=call.call_id, tool=call.tool, arguments={}, digest=call.digest),
            principal=call.principal,
            session=session,
            budget=self._budget(call, question),
            sandbox=SandboxInput(id=where.sandbox_id, template=where.template, profile=call.profile),
            egress=EgressInput(
                layer=question.layer,
                host=host,
                sni=question.sni,
                authority=question.authority,
                method=question.method,
                path=question.path,
                upgrade=question.upgrade,
                address=_address(question.address, tables) if question.address else None,
                granted=where.grant.classify(host.name).get(GRANTED, False),
                terminated=host.name in self._terminated,
                credential=question.credential,
                bytes_sent=question.bytes_sent,
                bytes_received=question.bytes_received,
                host_requests=question.host_requests,
                host_sent=question.host_sent,
                host_received=question.host_received,
                label=question.label or self._carried(session.id, host.name),
            ),
        )
        return engine.evaluate(ENTRYPOINT, asked)

    def _carried(self, session_id: str, name: str) -> dict[str, int]:
        """What a name can carry that was not asked for first: Envoy's resolver will ask for it."""
        return measure(name) | {"names": self._asked.count(session_id, name)}

    def _budget(self, call: Call, question: Question) -> BudgetInput:
        """What the decision saw or what was counted here, whichever is more. The rules add this connection's bytes.

        Keys that the decision did not see stay unknown, which they refuse.
        """
        own = {"egress_bytes": question.bytes_sent, "ingress_bytes": question.bytes_received}
        counted = {
            "requests": question.requests,
            "egress_bytes": max(question.session_sent, question.bytes_sent),
            "ingress_bytes": max(question.session_received, question.bytes_received),
        }
        decided, beside = call.budget.usage, self._used(call.session_id)
        used = {key: max(number, counted.get(key, 0)) + beside.get(key, 0) for key, number in decided.items()}
        since = {key: number - decided[key] for key, number in used.items()}
        return BudgetInput(
            usage={key: max(0, number - own.get(key, 0)) for key, number in used.items()},
            principal={key: number + since.get(key, 0) for key, number in call.budget.principal.items()},
            limits=call.budget.limits,
            hosts=call.budget.hosts,
        )

    def _record(self, question: Question, where: Where | None, verdict: Verdict, time_us: int) -> None:
        if verdict.allowed and question.again:
            return
        call = where.call if where is not None else None
        connection = Connection(
            time_us=time_us,
            state="allowed" if verdict.allowed else "refused",
            sandbox_id=where.sandbox_id if where is not None else "",
            exec_id=call.exec_id if call is not None else "",
            decision_id=call.decision_id if call is not None else "",
            call_id=call.call_id if call is not None else "",
            session_id=call.session_id if call is not None else "",
            principal=call.principal.name if call is not None else "",
            trace_id=call.trace_id if call is not None else "",
            layer=question.layer,
            name=(verdict.name or question.name)[:_TEXT_MAX],
            port=question.port,
            address=question.address[:_TEXT_MAX],
            method=question.method[:_TEXT_MAX],
            rules=verdict.rules,
            reason=verdict.reason[:_TEXT_MAX],
            revision=self._loaded.bundle.revision if self._loaded is not None else "",
        )
        (self._reports.allowed if verdict.allowed else self._reports.refused)(connection)


def _host(question: Question, tables: ClassTables) -> HostFact:
    """The one host of the question, and its port. On the wire names are A-labels (RFC 5890): nothing else is read."""
    name = question.name
    host = parse_host(name, tables=tables) if name.isascii() and not _BEHIND & set(name) else None
    if host is None or question.layer not in _LAYERS or host.port not in (None, question.port):
        remedy = "Name one host, without user, path or another port."
        raise _RefusedError(_DENY, "this can't be read as exactly one host", repr(name[:100]), remedy)
    return msgspec.structs.replace(host, port=question.port)


def _barred(why: str, question: Question, name: str) -> Verdict:
    rule, _, reason = why.partition(": ")
    hit = _refusal(rule if "." in rule else _DENY, reason, question.name, "")
    return Verdict(allowed=False, name=name, hits=(hit,))


def _address(text: str, tables: ClassTables) -> HostFact:
    address = parse_host(text, tables=tables)
    if address is None or not address.ip_literal:
        raise _RefusedError(_DENY, "what would be dialled is no address", repr(text[:100]), "Report it.")
    return address


def _refusal(rule: str, reason: str, value: str, remedy: str) -> RuleHit:
    return RuleHit(
        id=rule, severity=Severity.HIGH, action=Action.BLOCK, reason=reason, value=value[:_TEXT_MAX], remedy=remedy
    )
