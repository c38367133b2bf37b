"""The operations the unprivileged processes may ask of the warden: a closed list of typed messages.

One message a packet on a SOCK_SEQPACKET socketpair, MessagePack, file descriptors by SCM_RIGHTS. A request
carries an id of the sender's; the answer repeats it, and so does the end of what a Start has started, which is told
unasked. Requests are served concurrently, so one that waits holds up nothing. A packet that does not decode ends the
connection: a peer that sends one is not ours.

Why each operation is safe to offer to a front under an attacker's control:

- CreateSandbox, Start  only against the leaf hash of a decision record that allows exactly this subject, once.
- Kill, Signal, Resize, DeleteSandbox, ListSandboxes  act on objects that earlier decisions made; the worst is a lost
  run.
- PauseSandbox, ResumeSandbox, AwaitLost  likewise. FindImage  names the digest of an image, FindUser  its users.
- AwaitBundle  tells the digest of a file that only root can put in place.
- NextBreach  tells what the monitor found.
- AskHelper  (front) names an archived bundle for the helper to load; the helper takes none that no trusted key signed.
- NextStep  (helper) hears what the front asked and answers it.
- OpenGateway  (helper) hands over the sockets on which guests' and Envoy's questions and connections arrive.
- Vet  (helper) lets Envoy dial addresses, and takes only global ones; that of a name nobody was granted serves nobody.
- ListEndpoints, Dial  (helper) lead synthetic addresses to the helper, and hand over a socket that the kernel lets go
  to global addresses on listed ports, as for Envoy on 80 and 443.
- Cut  (helper) ends connections of sandboxes, and of nobody else.
- Report  (helper) tells of connections what the front puts on record; NextConnections hears it.
- LookOut  asks the helper what sandboxes have open and have used; NextLook (helper) hears it and answers.
- NextSegment  is refused as long as the last segment of the audit log is not full.
- Status  reads. Serving  says that the front is alive; a lie about it costs availability.

Nothing here can name a host path, an OCI field, a flag, an address that is not global, or another process.
"""

import signal
from typing import Annotated, Final

import msgspec

from opensafe.model.breach import Breach
from opensafe.model.chain import MAX_LINE
from opensafe.model.connection import Connection
from opensafe.model.sandbox import Launch, Name, SandboxSpec, Terminal, User
from opensafe.model.termination import Credential
from opensafe.model.traffic import Sight, What

#: Largest packet either side accepts, in bytes. argv and environment of one program must fit.
MAX_PACKET: Final = 512 * 1024
#: Requests of one peer that may be under way at once.
MAX_PENDING: Final = 4096
#: Where Envoy tells what became of connections: beside the socket on which it asks.
LOG_SOCKET: Final = "log.sock"

#: Exit status (EX_CONFIG) of a child for which another start would not help.
REFUSES: Final = 78

Hex = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Id = Annotated[str, msgspec.Meta(pattern=r"^(sb|exec)-[0-9a-f]{20}\Z")]
Address = Annotated[str, msgspec.Meta(pattern=r"^(\d{1,3}\.){3}\d{1,3}\Z")]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class _Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):
    request: int


class RecordRef(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a decision record lies: audit segment by number, byte offset and length of its line, leaf hash."""

    segment: Annotated[int, msgspec.Meta(ge=0)]
    offset: Annotated[int, msgspec.Meta(ge=0)]
    length: Annotated[int, msgspec.Meta(ge=1, le=MAX_LINE)]
    leaf: Hex


class CreateSandbox(_Message, frozen=True):
    """Make and start a sandbox, or hand one out of the pool (and nothing else, if so required). Answer: SandboxMade."""

    spec: SandboxSpec
    decision: RecordRef
    require_warm: bool = False


class FindImage(_Message, frozen=True):
    """Answer: ImageFound."""

    template: Name


class FindUser(_Message, frozen=True):
    """A user of a sandbox's image, or without one of a template's, by name or number. Answer: UserFound."""

    user: Annotated[str, msgspec.Meta(max_length=64)]
    sandbox_id: Id | None = None
    template: Name = "base"


class DeleteSandbox(_Message, frozen=True):
    """End and remove a sandbox and all that was made for it. Answer: Done."""

    sandbox_id: Id


class PauseSandbox(_Message, frozen=True):
    """Stop the guest; one that is paused stays so. Answer: Done."""

    sandbox_id: Id


class ResumeSandbox(_Message, frozen=True):
    """Let the guest go on; one that runs goes on. Answer: Done."""

    sandbox_id: Id


class ListSandboxes(_Message, frozen=True):
    """In the order of their ids, those after this one ("": from the first). Answer: Sandboxes."""

    after: str = ""


class NextSegment(_Message, frozen=True):
    """Begin another segment of the audit log. Answer: SegmentBegun."""


class AwaitLost(_Message, frozen=True):
    """Answer, when a sandbox was lost under a number above `after`: Lost."""

    after: Annotated[int, msgspec.Meta(ge=0)]


class Start(_Message, frozen=True):
    """Start a program. Descriptors: stdin, stdout, stderr, in this order (pipes). Answer: Started, and later Ended."""

    launch: Launch
    decision: RecordRef


class Kill(_Message, frozen=True):
    """Kill the whole tree of one program (its runner excepted, which reaps). Answer: Done, when it is empty."""

    exec_id: Id


#: What Signal can send, by number: what ends, stops, continues or tells, and nothing that reports a fault.
SIGNALS: Final = {
    int(one): one.name
    for one in (
        *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM),
        *(signal.SIGTERM, signal.SIGCONT, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),
        signal.SIGWINCH,
    )
}


class Signal(_Message, frozen=True):
    """Signal a program, or all that runs below its runner as of one moment. Answer: Done."""

    exec_id: Id
    signal: int
    whole_tree: bool


class Resize(_Message, frozen=True):
    """Give the program's terminal another size. Answer: Done; InvalidArgument where it has none."""

    exec_id: Id
    terminal: Terminal


class Status(_Message, frozen=True):
    """Answer: StatusReport."""


class Serving(_Message, frozen=True):
    """The front serves. Sent when it begins to and every few seconds after; a silent front hangs. Answer: Heard."""


class AwaitBundle(_Message, frozen=True):
    """Answer, when there is an offer with a number above `after`: BundleOffered."""

    after: Annotated[int, msgspec.Meta(ge=0)]


class NextBreach(_Message, frozen=True):
    """Answer, when there is one with a number above `after`: BreachFound. Those up to `after` are on record."""

    after: Annotated[int, msgspec.Meta(ge=0)]


class AskHelper(_Message, frozen=True):
    """Let the helper prepare the archived bundle, or (swap) serve by it. Answer, when it has: Done."""

    digest: Hex
    swap: bool


class NextStep(_Message, frozen=True):
    """The helper has finished step number `finished` (0: none yet) with `error` or "". Answer: BundleStep."""

    finished: Annotated[int, msgspec.Meta(ge=0)] = 0
    error: Annotated[str, msgspec.Meta(max_length=4096)] = ""


class OpenGateway(_Message, frozen=True):
    """Answer: GatewayOpened."""


class Vet(_Message, frozen=True):
    """Let Envoy dial these IPv4 addresses for so long. Answer: Done; InvalidArgument where one is not global."""

    addresses: Annotated[tuple[Address, ...], msgspec.Meta(min_length=1, max_length=32)]
    seconds: Annotated[int, msgspec.Meta(ge=1, le=3600)]


class ListEndpoints(_Message, frozen=True):
    """Lead these pairs of synthetic address and port to the helper, and no others. Answer: Done; InvalidArgument."""

    endpoints: Annotated[tuple[tuple[Address, Port], ...], msgspec.Meta(max_length=4096)]


class Dial(_Message, frozen=True):
    """Make a socket that can be connected to this. Answer: Dialling; InvalidArgument where it must not be dialled."""

    address: Address
    port: Port


class Cut(_Message, frozen=True):
    """End the connections that a sandbox's address has to the gateway, or the one from this port. Answer: Done."""

    address: Address
    port: Port | None = None


class Report(_Message, frozen=True):
    """What became of connections and DNS questions, for the record. Answer: Done, or LimitExceeded: say it later."""

    connections: Annotated[tuple[Connection, ...], msgspec.Meta(min_length=1, max_length=128)]


class NextConnections(_Message, frozen=True):
    """Answer, when there are some with a number above `after`: ConnectionsTold. Those up to `after` are on record."""

    after: Annotated[int, msgspec.Meta(ge=0)]


class LookOut(_Message, frozen=True):
    """Have the helper say what it sees of these sandboxes. Answer: Sighted; Unavailable where there is no helper.

    host, port: with `standing`, what the sandbox would go for.
    """

    what: What
    sandbox_ids: Annotated[tuple[Id, ...], msgspec.Meta(min_length=1, max_length=64)]
    host: Annotated[str, msgspec.Meta(max_length=256)] = ""
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] | None = None


class NextLook(_Message, frozen=True):
    """The helper saw `sight` under the number `looked` (0: nothing yet), None if it could not look. Answer: LookDue."""

    looked: Annotated[int, msgspec.Meta(ge=0)] = 0
    sight: Sight | None = None


#: What there is only where sandboxes have a way out.
OfWayOut = OpenGateway | Vet | ListEndpoints | Dial | Cut | Report | NextConnections | LookOut | NextLook
Request = (
    CreateSandbox
    | FindImage
    | FindUser
    | DeleteSandbox
    | PauseSandbox
    | ResumeSandbox
    | ListSandboxes
    | AwaitLost
    | Start
    | Kill
    | Signal
    | Resize
    | Status
    | Serving
    | AwaitBundle
    | NextBreach
    | AskHelper
    | NextSegment
    | NextStep
    | OfWayOut
)
#: Requests that may have no end: given up with their connection.
WAITING: Final = (AwaitLost, AwaitBundle, NextBreach, AskHelper, NextStep, NextConnections, LookOut, NextLook)


class Done(_Message, frozen=True):
    """The operation is complete."""


class SandboxMade(_Message, frozen=True):
    """The sandbox runs; create_ns is the time it took.

    warm: it came out of the pool. claim_ns: of that time, what it took to look at the cell and to let it go on.
    """

    sandbox_id: Id
    create_ns: int
    warm: bool = False
    claim_ns: int = 0


class ImageFound(_Message, frozen=True):
    """The image that the template's name means now."""

    digest: str


class UserFound(_Message, frozen=True):
    """The user; None is the one that programs have who ask for none."""

    user: User | None


class SandboxState(msgspec.Struct, frozen=True, kw_only=True):
    """One sandbox as the warden sees it. `state`: running, paused, lost or deleting; `cause` with lost."""

    sandbox_id: str
    template: str
    state: str
    created_unix_ns: int
    cause: str = ""


class Sandboxes(_Message, frozen=True):
    """Sandboxes of this daemon, and whether there are more after the last."""

    sandboxes: tuple[SandboxState, ...]
    more: bool


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """A sandbox that ended by itself; what is left of it waits to be deleted."""

    number: int
    sandbox_id: str
    cause: str


class Lost(_Message, frozen=True):
    """Losses in the order of their numbers. There may be more after the last."""

    losses: tuple[Loss, ...]


class SegmentBegun(_Message, frozen=True):
    """The audit log's last segment by number. Descriptor: to append to it."""

    number: int


class Started(_Message, frozen=True):
    """The program was handed to the sentry; its ledger entry is on disk."""

    exec_id: Id


class Ended(_Message, frozen=True):
    """How a program ended. Sent once, when it and everything below it is gone, to whoever started it.

    kind: `exited` (value = exit code), `signalled` (value = signal number), `not_started` (value = errno,
    detail = stage), `violation` (detail = the rule it broke, in words), `lost` (detail = cause). run_ns: start to end
    as the warden saw it. cut: the end of what it wrote to its terminal did not get through, because nobody read it.
    """

    exec_id: Id
    kind: str
    value: int = 0
    detail: str = ""
    run_ns: int = 0
    cut: bool = False


class Heard(_Message, frozen=True):
    """blocked: why nothing starts at the moment, or ""."""

    blocked: str = ""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One self-test: what was tried, whether the sandbox refused it, whether the control got through."""

    name: str
    refused: bool
    control_succeeded: bool
    answer: str
    control_answer: str


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What the helper has read of the monitor's reports since it started: executions judged, and of these refused."""

    reports: int = 0
    executions: int = 0
    refused: int = 0


class PoolState(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the pool. failures: in a row; then `error` is the last, and the next try is `pause_s` away."""

    principal: str
    template: str
    wanted: int
    ready: int
    failures: int = 0
    error: str = ""
    pause_s: int = 0


class StatusReport(_Message, frozen=True):
    """What the warden knows of itself and the runtime. helper_bundle: digest of what the helper serves by, or "".

    checked_us: when the self-test ended. sandbox_cpu_ns: of all sandboxes since the daemon's start.
    """

    runsc_version: str
    runsc_platform: str
    checks: tuple[Check, ...]
    sandboxes: int
    programs: int
    ledger_size: int
    append_only: bool
    checkpoint_size: int = 0
    checkpoint_us: int = 0
    checkpoint_failure: str = ""
    removed_at_start: tuple[str, ...] = ()
    helper_bundle: str = ""
    monitor: Counts = Counts()
    pool: tuple[PoolState, ...] = ()
    checked_us: int = 0
    sandbox_cpu_ns: int = 0
    sandbox_memory_bytes: int = 0


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What was put in place of the policy bundle: the digest under which it is archived, or why it could not be.

    removed: digests that this start removed from the archive, until they are on record.
    """

    number: int
    digest: str = ""
    refused: str = ""
    removed: tuple[str, ...] = ()


class BundleOffered(_Message, frozen=True):
    """The newest offer."""

    offer: Offer


class BreachFound(_Message, frozen=True):
    """What a program did against the rules of gate/runtime; the call or sandbox is ended already."""

    number: int
    breach: Breach


class BundleStep(_Message, frozen=True):
    """What the helper is to do: prepare the archived bundle, or (swap) serve by it."""

    number: int
    digest: str
    swap: bool


class GatewayOpened(_Message, frozen=True):
    """Descriptors: guests' DNS by UDP and by TCP, Envoy's DNS, listed endpoints. authz: socket on which Envoy asks.

    networks: IPv4 networks that count as global beside those that are. credentials: with their secrets.
    """

    authz: str
    networks: tuple[str, ...] = ()
    credentials: tuple[Credential, ...] = ()


class Dialling(_Message, frozen=True):
    """Descriptor: the socket, not connected."""


class ConnectionsTold(_Message, frozen=True):
    """Connections by the number of the last, oldest first. There may be more after it."""

    number: int
    connections: tuple[Connection, ...]


class LookDue(_Message, frozen=True):
    """What the helper is to look at, under a number; the rest is the front's question."""

    number: int
    what: What
    sandbox_ids: tuple[Id, ...]
    host: str = ""
    port: int | None = None


class Sighted(_Message, frozen=True):
    """What the helper saw."""

    sight: Sight


#: Answers that descriptors come with.
PASSING: Final = (SegmentBegun, GatewayOpened, Dialling)


class Failed(_Message, frozen=True):
    """The operation was refused or failed: `reason` is an error class's `reason` in errors.py."""

    reason: str
    message: str
    value: str = ""
    limit: str = ""
    remedy: str = ""


Answer = (
    Done
    | ImageFound
    | UserFound
    | SandboxMade
    | Sandboxes
    | Lost
    | SegmentBegun
    | Heard
    | Started
    | Ended
    | StatusReport
    | BundleOffered
    | BreachFound
    | BundleStep
    | GatewayOpened
    | Dialling
    | ConnectionsTold
    | LookDue
    | Sighted
    | Failed
)
