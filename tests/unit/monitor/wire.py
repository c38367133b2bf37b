"""Reports as the pinned sentry writes them, and a watcher with a warden's hand on each socket."""

import array
import socket
import struct
from typing import Any, cast

import msgspec

from opensafe.model.breach import Breach
from opensafe.model.calls import Principal
from opensafe.model.decision import Action, Decision, Grant, RuleHit, Severity
from opensafe.model.ids import new_id
from opensafe.model.policy_input import CallInput, PolicyInput, RuntimeInput, SessionInput
from opensafe.monitor.watcher import Watcher
from opensafe.warden import feed

SANDBOX = "sb-" + "0" * 20
SIGSYS = 31
_decode = msgspec.msgpack.Decoder(feed.Said).decode


def varint(value):
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value if isinstance(value, bytes) else value.encode()
    return varint(number << 3 | 2) + varint(len(data)) + data


def report(kind, *fields, pid, parent=0, container=SANDBOX, dropped=0, size=8):
    context = field(2, pid) + field(4, pid) + field(6, container) + (field(10, parent) if parent else b"")
    return struct.pack("<HHI", size, kind, dropped) + field(1, context) + b"".join(fields)


def clone(pid, child, parent=0, flags=0x1200000, **more):
    return report(2, field(3, child), field(4, child), field(5, 1), field(6, flags), pid=pid, parent=parent, **more)


def execution(pid, path, parent=0, argv=("x",), **more):
    return report(
        3, field(2, path), *(field(3, word) for word in argv), field(17, path), pid=pid, parent=parent, **more
    )


def end(pid, parent=0, status=0, **more):
    return report(4, *([field(2, status)] if status else []), pid=pid, parent=parent, **more)


def call(**changes):
    fields: dict[str, Any] = {
        "exec_id": new_id("exec"), "decision_id": new_id("dec"), "call_id": "c", "session_id": "s", "tool": "Bash",
        "digest": "d", "trace_id": "t", "principal": Principal(name="agent"), "agent": "a", "profile": "default",
        "programs": ("/usr/bin/bash",), "pid": 0,
    }  # fmt: skip
    return feed.Call(**(fields | changes))


class Strict:
    """Refuses what was not announced, and SIGSYS; remembers what it was asked."""

    def __init__(self):
        self.judges = True
        self.asked = []

    def execution(self, sandbox_id, template, call, path, *, announced):
        self.asked.append((call.exec_id if call else "", path, announced))
        return None if announced else _breach(sandbox_id, call, RuntimeInput(event="exec", path=path))

    def fatal_call(self, sandbox_id, template, call):
        self.asked.append((call.exec_id if call else "", "SIGSYS", False))
        return _breach(sandbox_id, call, RuntimeInput(event="syscall", syscall="SIGSYS"))


def _breach(sandbox_id, call, event):
    question = PolicyInput(
        id="q",
        kind="runtime",
        call=CallInput(id="", tool="", arguments={}, digest=""),
        principal=Principal(name=""),
        session=SessionInput(id=""),
        runtime=event,
    )
    hit = RuleHit(
        id="runtime.test", severity=Severity.HIGH, action=Action.BLOCK, reason="because", value="v", remedy="r"
    )
    verdict = Decision(action=Action.BLOCK, rules=(hit,), grant=Grant(), id="q", data_version="")
    exec_id = call.exec_id if call else ""
    return Breach(
        sandbox_id=sandbox_id, exec_id=exec_id, trace_id="", revision="", digest="", input=question, result=verdict
    )


def pair():
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Bench:
    """A watcher of one sandbox. `sentry` is the sandbox's end of its reports, `kept` the warden's copy of the other."""

    def __init__(self, judge: Any = None, *, calls=(), processes=(), callers=None, address=""):
        self.judge = cast("Any", judge if judge is not None else Strict())
        self._feed, theirs = pair()
        self._feed.setblocking(False)
        self.watcher = Watcher(theirs, self.judge, callers)
        self.sentry, self.kept = pair()
        self.watch(calls, processes, address)

    def watch(self, calls=(), processes=(), address=""):
        told = feed.Watch(
            sandbox_id=SANDBOX,
            container=SANDBOX,
            template="base",
            address=address,
            calls=tuple(calls),
            processes=tuple(processes),
        )
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self.kept.fileno()]))]
        self._feed.sendmsg([msgspec.msgpack.encode(told)], passed)

    def tell(self, told):
        self._feed.send(msgspec.msgpack.encode(told))

    def expect(self, **changes):
        announced = call(**changes)
        self.tell(feed.Expect(sandbox_id=SANDBOX, call=announced))
        return announced

    def bind(self, announced, pid):
        self.tell(feed.Bound(sandbox_id=SANDBOX, exec_id=announced.exec_id, pid=pid))

    def start(self, pid, **changes):
        """A call whose runner is `pid` and whose own program, bash, is the next process."""
        announced = self.expect(**changes)
        self.bind(announced, pid)
        self.report(clone(pid, pid + 1), execution(pid + 1, "/usr/bin/bash", parent=pid))
        return announced

    def report(self, *reports):
        for one in reports:
            self.sentry.send(one)

    def turn(self):
        """Let it work; what it said."""
        self.watcher.turn()
        said = []
        while True:
            try:
                said.append(_decode(self._feed.recv(1 << 20)))
            except BlockingIOError:
                return said

    def close(self):
        self.watcher.close()
        for end in (self._feed, self.sentry, self.kept):
            end.close()
