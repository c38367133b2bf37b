"""What sandboxes sent and received, by session and by host, while it happens.

A call's budget is what its decision saw; what was used since is only known here. What any decision saw and what was
counted are lower bounds of one total, so the largest counts, and all that comes is added to it: a record that lags
behind can't be used to spend twice. Names come from guests, so there are so many of them, and the rest is `other`.
"""

from typing import Final

import msgspec

from opensafe.model.policy_input import BudgetInput
from opensafe.model.traffic import HostCount
from opensafe.model.usage import HostUse
from opensafe.normalize.urls import canonical_name
from opensafe.warden.feed import Call

from .judge import Question

OTHER: Final = "other"
#: Hosts counted apart, of one sandbox; and how many of them may be names that were only refused.
_HOSTS: Final = 256
_REFUSED: Final = 128
_NAME: Final = 253


class _Session:
    def __init__(self) -> None:
        self.sandboxes: set[str] = set()
        self.total = HostUse()
        self.hosts: dict[str, HostUse] = {}
        self._known: BudgetInput | None = None

    def know(self, budget: BudgetInput) -> None:
        """What a decision saw was used, if not more. Said twice it changes nothing, and each check says it."""
        if budget is self._known:
            return
        self._known = budget
        usage = budget.usage
        saw = HostUse(**{key: usage.get(key, 0) for key in HostUse.__struct_fields__})
        self.total = self.total.at_least(saw)
        for name, use in budget.hosts.items():
            key = self.key(name)
            self.hosts[key] = self.hosts.get(key, HostUse()).at_least(use)

    def add(self, name: str, use: HostUse) -> None:
        """More was used, with this host."""
        self.total = self.total.plus(use)
        key = self.key(name)
        self.hosts[key] = self.hosts.get(key, HostUse()).plus(use)

    def key(self, name: str) -> str:
        """Under which a host is counted."""
        name = name[:_NAME]
        return name if name in self.hosts or len(self.hosts) < _HOSTS else OTHER


class Accounting:
    """Totals since the helper's start; of a sandbox until `gone`, of a session until its last sandbox is."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._hosts: dict[str, dict[str, HostCount]] = {}

    def charged(
        self, question: Question, call: Call | None, *, sent: int = 0, received: int = 0, counted: bool = False
    ) -> Question:
        """The question with what the call's session has used, in all and with the host.

        counted: what is asked about is among the requests already, with these bytes, and is not weighed against itself.
        """
        if call is None:
            return question
        session = self._seen(call)
        host = session.hosts.get(session.key(canonical_name(question.name) or question.name), HostUse())
        return msgspec.structs.replace(
            question,
            bytes_sent=sent,
            bytes_received=received,
            requests=session.total.requests - counted,
            session_sent=session.total.egress_bytes,
            session_received=session.total.ingress_bytes,
            host_requests=max(0, host.requests - counted),
            host_sent=max(0, host.egress_bytes - sent),
            host_received=max(0, host.ingress_bytes - received),
            again=counted,
        )

    def over(self, call: Call | None, asked: int = 0) -> str:
        """Why the session may use no more by its own limits: rule, value and remedy; or "". asked: requests to come."""
        if call is None:
            return ""
        total = self._seen(call).total
        for key, rule, used in (
            ("egress_bytes", "egress.bytes.budget", total.egress_bytes),
            ("ingress_bytes", "egress.ingress.budget", total.ingress_bytes),
            ("requests", "egress.requests.budget", total.requests + asked),
        ):
            limit = call.budget.limits.get(key)
            if limit is not None and used > limit:
                return f"{rule}: {used} of {limit} {key} would be used. Open a new session."
        return ""

    def since(self, call: Call) -> HostUse:
        """What its session has used since the call's decision."""
        usage, total = call.budget.usage, self._seen(call).total
        return HostUse(**{key: getattr(total, key) - usage.get(key, 0) for key in HostUse.__struct_fields__})

    def allowed(self, sandbox_id: str, name: str, call: Call | None) -> None:
        """Count a connection or request that was let through."""
        self._count(sandbox_id, name, allowed=1)
        if call is not None:
            session = self._seen(call)
            session.sandboxes.add(sandbox_id)
            session.add(name, HostUse(requests=1))

    def refused(self, sandbox_id: str, name: str) -> None:
        """Count one that was not, or a DNS question. A guest can ask for any name: many leave room for what it uses."""
        if sandbox_id:
            self._count(sandbox_id, name, refused=1)

    def moved(self, sandbox_id: str, name: str, call: Call | None, sent: int, received: int) -> None:
        """Add bytes: from the guest, to the guest. sandbox_id: "" where it is not known any more."""
        if sandbox_id:
            self._count(sandbox_id, name, sent=sent, received=received)
        if call is not None:
            session = self._seen(call)
            session.sandboxes |= {sandbox_id} - {""}
            session.add(name, HostUse(egress_bytes=sent, ingress_bytes=received))

    def gone(self, sandbox_id: str) -> None:
        """Forget the sandbox, and its session where it has no other."""
        self._hosts.pop(sandbox_id, None)
        for name, session in list(self._sessions.items()):
            session.sandboxes.discard(sandbox_id)
            if not session.sandboxes:
                del self._sessions[name]

    def hosts(self, sandbox_id: str = "") -> tuple[HostCount, ...]:
        """Counters by host, of one sandbox or by sandbox of all."""
        shown = self._hosts.values() if not sandbox_id else (self._hosts.get(sandbox_id, {}),)
        return tuple(one for hosts in shown for one in hosts.values())

    def _seen(self, call: Call) -> _Session:
        session = self._sessions.setdefault(call.session_id, _Session())
        session.know(call.budget)
        return session

    def _count(
        self, sandbox_id: str, name: str, *, allowed: int = 0, refused: int = 0, sent: int = 0, received: int = 0
    ) -> None:
        hosts = self._hosts.setdefault(sandbox_id, {})
        name = name[:_NAME]
        most = _REFUSED if refused else _HOSTS
        if name not in hosts and len(hosts) >= most:
            name = OTHER
        so_far = hosts.get(name) or HostCount(sandbox_id=sandbox_id, name=name)
        hosts[name] = HostCount(
            sandbox_id=sandbox_id,
            name=name,
            allowed=so_far.allowed + allowed,
            refused=so_far.refused + refused,
            sent=so_far.sent + sent,
            received=so_far.received + received,
        )
