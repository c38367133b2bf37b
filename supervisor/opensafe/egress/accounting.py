"""What sandboxes sent and received, by session and by host, while it happens.

A call's budget is what its decision saw; what was used since is only known here. Both this session's total and what
came since the call was first seen are lower bounds of the truth, so the larger one counts: a record that lags behind
can't be used to spend twice. Names come from guests, so each sandbox has so many of them, and the rest as `other`.
"""

from typing import Final

import msgspec

from opensafe.model.traffic import HostCount
from opensafe.warden.feed import Call

from .judge import Question

OTHER: Final = "other"
#: Hosts counted apart, of one sandbox; and how many of them may be names that were only refused.
_HOSTS: Final = 256
_REFUSED: Final = 128
_NAME: Final = 253
_BYTES: Final = "egress_bytes"
_REQUESTS: Final = "requests"


class _Session:
    def __init__(self) -> None:
        self.sandboxes: set[str] = set()
        self.sent = 0
        self.requests = 0
        self.before: dict[str, tuple[int, int]] = {}  # by exec_id: sent and requests when the call was first seen


class Accounting:
    """Totals since the helper's start; of a sandbox until `gone`, of a session until its last sandbox is."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._hosts: dict[str, dict[str, HostCount]] = {}

    def charged(self, question: Question, call: Call | None, *, counted: bool = False) -> Question:
        """The question with what the call's session has used since the call's decision.

        counted: what is asked about is among the requests already, and is not to be weighed against itself.
        """
        if call is None:
            return question
        sent, requests = self.since(call)
        return msgspec.structs.replace(question, bytes_sent=sent, requests=requests - counted, again=counted)

    def over(self, call: Call | None, asked: int = 0) -> str:
        """Why the session may use no more by its own limits: rule, value and remedy; or "". asked: requests to come."""
        if call is None:
            return ""
        sent, requests = self.since(call)
        for key, rule, more in (
            (_BYTES, "egress.bytes.budget", sent),
            (_REQUESTS, "egress.requests.budget", requests + asked),
        ):
            limit = call.budget.limits.get(key)
            used = call.budget.usage.get(key, 0) + more
            if limit is not None and used > limit:
                return f"{rule}: {used} of {limit} {key} would be used. Open a new session."
        return ""

    def allowed(self, sandbox_id: str, name: str, call: Call | None) -> None:
        """Count a connection or request that was let through."""
        self._count(sandbox_id, name, allowed=1)
        if call is not None:
            session = self._seen(call)
            session.sandboxes.add(sandbox_id)
            session.requests += 1

    def refused(self, sandbox_id: str, name: str) -> None:
        """Count one that was not, or a DNS question. A guest can ask for any name: many leave room for what it uses."""
        if sandbox_id:
            self._count(sandbox_id, name, refused=1)

    def moved(self, sandbox_id: str, name: str, call: Call | None, sent: int, received: int) -> None:
        """Add bytes: from the guest, to the guest. sandbox_id: "" where it is not known any more."""
        if sandbox_id:
            self._count(sandbox_id, name, sent=sent, received=received)
        if call is not None:
            session = self._sessions.setdefault(call.session_id, _Session())
            session.sandboxes |= {sandbox_id} - {""}
            session.sent += sent

    def ended(self, exec_id: str) -> None:
        """Nothing of the call runs any more."""
        for session in self._sessions.values():
            session.before.pop(exec_id, None)

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

    def since(self, call: Call) -> tuple[int, int]:
        """Bytes sent and requests of its session since the call's decision."""
        session = self._seen(call)
        sent, requests = session.before[call.exec_id]
        usage = call.budget.usage
        return (
            max(session.sent - sent, session.sent - usage.get(_BYTES, 0)),
            max(session.requests - requests, session.requests - usage.get(_REQUESTS, 0)),
        )

    def _seen(self, call: Call) -> _Session:
        session = self._sessions.setdefault(call.session_id, _Session())
        session.before.setdefault(call.exec_id, (session.sent, session.requests))
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
