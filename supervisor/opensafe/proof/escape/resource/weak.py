"""The checks that are taken out for the controls: mutants of the front, and of the warden behind it."""

from typing import Final

from opensafe.proof.mutants import Mutant

_BUFFERED: Final = Mutant(
    id="all output is kept",
    file="execution/journal.py",
    old="        return not self._hurried and (behind > _WINDOW or (behind > 0 and self._held > self._retained))",
    new="        return False",
)
_RETAINED: Final = Mutant(
    id="nothing retained is dropped",
    file="execution/journal.py",
    old="        while self._held > self._retained and self._chunks[0].end <= needed:",
    new="        while False:",
)
_LINES: Final = Mutant(
    id="output is read as lines, and logged",
    file="execution/run.py",
    old="        while data := await output.read():\n",
    new="        while data := await output.read():\n"
    '            print(data[-2000:].decode("utf-8", "replace"), file=__import__("sys").stderr, flush=True)\n',
)
_CALLS: Final = Mutant(
    id="no cap on calls",
    file="gate.py",
    old="        if under_way >= self._caps.running_calls:",
    new="        if False:",
)
_SESSIONS: Final = Mutant(
    id="no cap on sessions", file="control/sessions.py", old="        if count >= limit:", new="        if False:"
)
_SANDBOXES: Final = Mutant(
    id="no cap on sandboxes",
    file="control/sandboxes.py",
    old="        if count >= self._caps.sandboxes:",
    new="        if False:",
)
_MESSAGES: Final = Mutant(
    id="no largest message",
    file="api/server.py",
    old="""("grpc.max_receive_message_length", arguments_bytes + _ENVELOPE)""",
    new="""("grpc.max_receive_message_length", -1), ("grpc.max_metadata_size", 64 << 20)""",
)
_ARGUMENTS: Final = Mutant(
    id="no largest arguments",
    file="normalize/arguments.py",
    old="    if len(data) > max_bytes:",
    new="    if False:",
)
_TIMEOUT: Final = Mutant(
    id="no verdict is an allow",
    file="control/judge.py",
    old="""            return blocked(question.id, f"policy reached no verdict: {error}")""",
    new="""            found = blocked(question.id, f"policy reached no verdict: {error}")
            return msgspec.structs.replace(found, action=Action.ALLOW, rules=())""",
)
_MEMBERS: Final = Mutant(
    id="no most members",
    file="model/files.py",
    old="MAX_TREE_ENTRIES: Final = 100_000",
    new="MAX_TREE_ENTRIES: Final = 10_000_000",
)
_TAKEN: Final = Mutant(
    id="of a download all is taken",
    file="client/trees.py",
    old="        self._admit(member.size)\n",
    new="",
)
_WRITTEN: Final = Mutant(
    id="a record that can't be written counts as written",
    file="audit/log.py",
    old="            view = view[os.write(self._descriptor, view) :]",
    new="""            try:
                view = view[os.write(self._descriptor, view) :]
            except OSError:
                return""",
)
_FOLDED: Final = Mutant(
    id="an index that can't be written is as good",
    file="audit/log.py",
    old="            raise self._fail(error) from error",
    new="            pass",
)

_PROGRAMS: Final = Mutant(
    id="no cap on programs",
    file="warden/sandbox/programs.py",
    old="        if under_way >= self._limit:",
    new="        if False:",
)
_CELLS: Final = Mutant(
    id="no cap on sandboxes of the warden's",
    file="warden/sandbox/lifecycle.py",
    old="        if taken >= self._limit:",
    new="        if False:",
)
_ROOM: Final = Mutant(
    id="there is always room for a sandbox",
    file="warden/sandbox/lifecycle.py",
    old="        return self._limit - len(self._sandboxes.keys() | self._reserved)",
    new="        return 1 << 20",
)
_TERM: Final = Mutant(
    id="what is over is asked to end",
    file="warden/sandbox/programs.py",
    old="await self._signal_once(running, signal.SIGKILL, whole_tree=True)",
    new="await self._signal_once(running, signal.SIGTERM, whole_tree=True)",
)

_UNREAD: Final = Mutant(
    id="what the record says is not read",
    file="warden/decisions.py",
    old="        self._checkpoints.require()\n",
    new="        return Decided(kind='decision', result=_Result(action='allow', grant=_Grant(programs='any')))\n",
)
_UNSYNCED: Final = Mutant(
    id="nor is it waited for",
    file="warden/decisions.py",
    old="            await self._segments.durable(ref)",
    new="            pass",
)
_LEDGER: Final = Mutant(
    id="an entry that can't be written counts as written",
    file="warden/ledger.py",
    old="            self._broken = isinstance(error, OSError)\n",
    new="            return self._size\n",
)

_PACKETS: Final = Mutant(
    id="no cap on a sandbox's connections",
    file="warden/network/firewall.py",
    old="_CONNECTIONS: Final = 512",
    new="_CONNECTIONS: Final = 60_000",
)
_TABLE: Final = Mutant(
    id="nor on those in the helper's table",
    file="egress/connections.py",
    old="MOST: Final = 512",
    new="MOST: Final = 60_000",
)

FRONT: Final = (
    *(_BUFFERED, _RETAINED, _LINES, _CALLS, _SESSIONS, _SANDBOXES),
    *(_MESSAGES, _ARGUMENTS, _TIMEOUT, _MEMBERS, _TAKEN, _WRITTEN, _FOLDED),
)
WARDEN: Final = (_PROGRAMS, _CELLS, _ROOM, _TERM, _PACKETS, _TABLE)
#: Of a warden that starts what is on no record.
RECORDLESS: Final = (_UNREAD, _UNSYNCED, _LEDGER)
