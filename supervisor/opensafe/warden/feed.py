"""Between the warden and the helper that watches: what the guest may be seen to do, and what was seen.

One message a packet on a SOCK_SEQPACKET pair of its own, MessagePack, a sandbox's report socket by SCM_RIGHTS. Either
side sends without waiting: the warden because a helper that lags must not hold up a start, the helper because a
finding must be out before the report that shows it is taken from its queue.

What a helper under an attacker's control can do with it: end calls and sandboxes, and keep silent. It can start
nothing, and the worst of its words is a lost run.
"""

from typing import Annotated, Final

import msgspec

from opensafe.model.breach import Breach
from opensafe.model.calls import Principal
from opensafe.model.connection import Connection
from opensafe.model.policy_input import BudgetInput, SessionInput

from .protocol import Counts, Id

#: Largest packet, in bytes: the process list of one sandbox must fit, and a finding.
MAX_PACKET: Final = 512 * 1024
#: Reports that may be kept for the helper, in bytes of the sentry's send buffer (twice what is asked for counts).
REPORT_BUFFER: Final = 4 << 20

_Why = Annotated[str, msgspec.Meta(max_length=2048)]


class _Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):
    pass


class Call(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call that runs or is about to: on which decision, for whom, and which files it may execute.

    programs: resolved paths, or None for any. pid: of its runner in the guest, 0 before it is known. network: the host
    names that its grant covers; session, budget: as its decision saw them. effects: as model/history.py has them.
    """

    exec_id: Id
    decision_id: str
    call_id: str
    session_id: str
    tool: str
    digest: str
    trace_id: str
    principal: Principal
    agent: str
    profile: str
    programs: tuple[str, ...] | None
    pid: int = 0
    network: tuple[str, ...] = ()
    session: SessionInput | None = None
    budget: BudgetInput = BudgetInput()
    effects: tuple[str, ...] = ()


def under(call: Call | None, connection: Connection) -> Connection:
    """What became of a connection, with whose it is: of a call that has the grant, of nobody where there is none."""
    if call is None:
        return connection
    return msgspec.structs.replace(
        connection,
        exec_id=call.exec_id,
        decision_id=call.decision_id,
        call_id=call.call_id,
        session_id=call.session_id,
        principal=call.principal.name,
        trace_id=call.trace_id,
    )


class Watch(_Message, frozen=True):
    """Read the reports of this sandbox, whose socket comes with the message.

    container: the id by which its sentry reports. calls, processes (id, parent): what there is already, where an
    earlier helper watched it. address: from which it speaks to the gateway, "" where it has no way out.
    """

    sandbox_id: Id
    container: Id
    template: str
    address: str = ""
    calls: tuple[Call, ...] = ()
    processes: tuple[tuple[int, int], ...] = ()


class Expect(_Message, frozen=True):
    """A call is about to be started."""

    sandbox_id: Id
    call: Call


class Granted(_Message, frozen=True):
    """What stays reachable in a sandbox whose session keeps its grants (grants.py), for a helper that starts anew.

    calls: oldest first, ended ones among them, each with its names. session: as it stands.
    """

    sandbox_id: Id
    calls: tuple[Call, ...] = ()
    session: SessionInput | None = None


class Bound(_Message, frozen=True):
    """It was: its runner has this process id."""

    sandbox_id: Id
    exec_id: Id
    pid: int


class Withdrawn(_Message, frozen=True):
    """It was not."""

    sandbox_id: Id
    exec_id: Id


class Left(_Message, frozen=True):
    """Nothing of the call runs any more: what it was granted is closed. Its last reports may still wait."""

    sandbox_id: Id
    exec_id: Id


class Renamed(_Message, frozen=True):
    """The sandbox was claimed from the pool and has this id now. Its sentry reports as before."""

    sandbox_id: Id
    to: Id


class Unwatch(_Message, frozen=True):
    """The sandbox is gone."""

    sandbox_id: Id


class Ping(_Message, frozen=True):
    """Answer with Pong once everything that waits now is read."""

    number: int


Told = Watch | Expect | Granted | Bound | Withdrawn | Left | Renamed | Unwatch | Ping


class Found(_Message, frozen=True):
    """A breach. `why` is for the outcome: rule, value and remedy."""

    breach: Breach
    why: _Why


class Untrusted(_Message, frozen=True):
    """Nothing can be said of this sandbox any more: reports were lost, ended, or are not the sentry's."""

    sandbox_id: Id
    why: _Why


class Pong(_Message, frozen=True):
    """The answer to Ping. judges: there is a policy to judge by."""

    number: int
    judges: bool
    counts: Counts


Said = Found | Untrusted | Pong
