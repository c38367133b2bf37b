"""F1: the bytes of a request, by way of protobuf and JSON, to a call that may be judged, or to a typed refusal.

Reference: `json.loads` for what the arguments say, and the message itself for what was asked. Whatever is accepted
says exactly that, within every bound; nothing that can't be read becomes a request that nobody sent.
"""

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from opensafe._proto.v1 import common_pb2, exec_pb2, sandbox_pb2, session_pb2
from opensafe.api import convert, exec_messages, sandbox_messages
from opensafe.errors import OpenSafeError
from opensafe.model.calls import ToolCall
from opensafe.model.canonical import canonical_json, read_canonical
from opensafe.model.decision import Grant, PathGrant
from opensafe.normalize.tools import DEFAULT_REGISTRY
from opensafe.proof.fuzzing import values
from opensafe.proof.fuzzing.draw import Draw
from opensafe.proof.fuzzing.target import Target, holds
from opensafe.proof.mutants import Mutant

_ARGUMENTS_MAX: Final = 1024
_DEEPEST: Final = 64
_TOOLS: Final = DEFAULT_REGISTRY.names()
_GRANT: Final = Grant(paths=PathGrant(read=("/workspace",), write=("/workspace",)))


def one(data: bytes) -> None:
    """Read one message, or the arguments of one tool."""
    draw = Draw(data)
    what = draw.number(0, len(_MESSAGES) + 1)
    if what >= len(_MESSAGES):
        tool = draw.pick(_TOOLS)
        sent = draw.rest() if what == len(_MESSAGES) else _made(draw, tool)
        _tried(_start, exec_pb2.StartCall(tool=tool, call_id="c1", arguments_json=sent))
        return
    kind, then = _MESSAGES[what]
    try:
        read = kind.FromString(draw.rest())
    except DecodeError:
        return
    encoded = read.SerializeToString(deterministic=True)
    again = kind.FromString(encoded)
    holds(again.SerializeToString(deterministic=True) == encoded, "what was read is encoded to the same again", encoded)
    _tried(then, read)


def _made(draw: Draw, tool: str) -> bytes:
    """Arguments after the tool's schema, with what is wrong about them drawn."""
    schema = DEFAULT_REGISTRY.spec(tool).schema
    names = sorted(schema["properties"])
    members = [f'"{name}": {draw.pick(_FITTING.get(name, ("1",)))}' for name in schema["required"]]
    for _ in range(draw.number(0, 2)):
        name = draw.pick(names)
        fitting = draw.pick(_FITTING.get(name, ("1",)))
        members.append(f'"{name}": {fitting if draw.flag() else values.spelled(draw, names, _TEXTS)}')
    return ("{" + ", ".join(members) + "}").encode("utf-8", "surrogatepass")


def _tried(then: Callable[[Any], None], message: Message) -> None:
    """Refusals are ours, and say what they refuse."""
    try:
        then(message)
    except OpenSafeError as error:
        holds(error.message and error.reason, "a refusal has its reason", repr(error))


def _request(message: exec_pb2.ExecRequest) -> None:
    match message.WhichOneof("message"):
        case "start":
            _start(message.start)
        case "resize":
            size = exec_messages.terminal_of(message.resize)
            holds((size.columns, size.rows) == (message.resize.columns, message.resize.rows), "the size is as sent")
        case "signal":
            number = exec_messages.signal_of(message.signal.signal)
            holds(1 <= number <= 64 and number == message.signal.signal, "the signal is one, and as sent", number)
        case _:
            pass


def _start(message: exec_pb2.StartCall) -> None:
    asked = exec_messages.asked_of(message)
    holds(asked.wall_ms == message.limits.wall_ms, "the deadline is as sent", message.limits)
    holds(asked.output_bytes == message.limits.output_bytes, "the output's limit is as sent", message.limits)
    holds(asked.wall_ms == 0 or 50 <= asked.wall_ms <= 3_600_000, "a deadline is within its bounds", asked)
    holds(0 <= asked.output_bytes <= 1 << 30, "a limit of output is within its bounds", asked)
    holds(asked.tag == message.tag and len(asked.tag) <= 64, "the tag is as sent, and short", asked)
    holds(asked.tag.isprintable(), "a tag can be printed", asked)
    terminal = (asked.terminal.columns, asked.terminal.rows) if asked.terminal else None
    sent = (message.terminal.columns, message.terminal.rows) if message.HasField("terminal") else None
    holds(terminal == sent, "the terminal is as sent", (terminal, sent))
    holds(terminal is None or all(1 <= cells <= 10_000 for cells in terminal), "a terminal has a size", terminal)
    keep = exec_messages.keep_of(message)
    known = message.on_disconnect in (0, 1, 2)
    holds(known and (keep or message.on_disconnect != 2), "what follows on a loss is as sent", message.on_disconnect)
    call = DEFAULT_REGISTRY.validate(message.call_id, message.tool, message.arguments_json, _ARGUMENTS_MAX)
    _arguments(message.tool, message.arguments_json, call)


def _arguments(tool: str, sent: bytes, call: ToolCall) -> None:
    holds(len(sent) <= _ARGUMENTS_MAX, "arguments are within their bound", len(sent))
    twice: list[str] = []

    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        twice.extend(key for key, _ in found if sum(key == other for other, _ in found) > 1)
        return dict(found)

    holds(call.arguments == json.loads(sent, object_pairs_hook=pairs), "the arguments are those sent", sent)
    holds(not twice, "no key stands twice", twice)
    _plain(call.arguments, 1)
    holds(call.tool == tool, "the call is the one sent", call.tool)
    canonical = canonical_json({"tool": tool, "arguments": call.sealed})
    holds(read_canonical(canonical) == {"tool": tool, "arguments": call.sealed}, "the digested form says the same")
    holds(hashlib.sha256(canonical).hexdigest() == call.digest, "the digest is that of the canonical form", canonical)
    holds(DEFAULT_REGISTRY.reopen("c1", tool, call.sealed).digest == call.digest, "a record gives the same digest")
    for name, value in call.sealed.items():
        if value != call.arguments[name]:
            text = call.arguments[name].encode()
            holds(name.startswith("content"), "only content is sealed away", name)
            if name == "content":
                holds(value["sha256"] == hashlib.sha256(text).hexdigest(), "what is sealed is known by its hash", name)
    _program(call)


def _plain(value: object, depth: int) -> None:
    holds(depth <= _DEEPEST + 1, "nothing is nested deeper than records can hold", depth)
    match value:
        case bool() | None:
            pass
        case int():
            holds(abs(value) < 1 << 53, "every integer is one to every reader", value)
        case str():
            holds("\0" not in value, "no text holds a NUL", value)
            holds(not re.search("[\ud800-\udfff]", value), "every text is Unicode", ascii(value))
        case dict():
            for key, item in value.items():
                _plain(key, depth)
                _plain(item, depth + 1)
        case list():
            for item in value:
                _plain(item, depth + 1)
        case _:
            holds(False, "arguments hold nothing else", type(value))


def _program(call: ToolCall) -> None:
    program = DEFAULT_REGISTRY.program(call, _GRANT)
    texts = [*program.argv, *program.env, *program.env.values(), program.cwd]
    holds(program.argv and program.argv[0], "a program has a name", program.argv)
    holds(not any("\0" in text for text in texts), "no argument ends early", texts)
    holds(program.cwd.startswith("/"), "a directory is absolute", program.cwd)
    holds("/../" not in f"{program.cwd}/" and "//" not in program.cwd, "a directory is clean", program.cwd)
    holds(all(re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) for name in program.env), "variables have names", texts)
    if call.tool == "Exec":
        holds(list(program.argv) == call.arguments["argv"], "what runs is what was sent", program.argv)
    if call.tool == "Bash":
        holds(program.argv[-1] == call.arguments["command"], "the text is one argument", program.argv)


def _sandbox(message: sandbox_pb2.CreateSandboxRequest) -> None:
    wanted = sandbox_messages.wanted(message)
    words = {0: "delete", 1: "delete", 2: "pause"}
    holds(wanted.idle_action == words.get(message.idle_action), "what idleness brings is as sent", message.idle_action)
    holds(wanted.labels == dict(message.labels), "labels are as sent", wanted.labels)
    holds(wanted.ttl_s == message.ttl_s >= 0, "the lease is as sent", wanted.ttl_s)
    holds(wanted.idle_timeout_s == message.idle_timeout_s >= 0, "the time of idleness is as sent", wanted)
    name = re.compile(r"[a-z][a-z0-9-]{0,31}")
    holds(name.fullmatch(wanted.template) is not None, "a template is a name", wanted.template)
    holds(message.template in ("", wanted.template), "the template is as sent", wanted.template)
    for field, value in message.limits.ListFields():
        holds(getattr(wanted.limits, field.name) == value, "limits are as sent", field.name)


def _filter(message: sandbox_pb2.ListSandboxesRequest) -> None:
    shown = sandbox_messages.filtered(message)
    holds(shown.labels == dict(message.labels) and shown.session_id == message.session_id, "the filter is as sent")


def _outcome(message: common_pb2.Outcome) -> None:
    outcome = convert.outcome_of(message)
    kind = f"OUTCOME_KIND_{outcome.kind.name}"
    holds(common_pb2.OutcomeKind.Value(kind) == message.kind, "an outcome is the one reported", outcome)
    holds(len(outcome.detail) <= 1000, "a detail is bounded", len(outcome.detail))


def _budget(message: session_pb2.BudgetLimits) -> None:
    limits = convert.budget_of(message)
    for field, value in message.ListFields():
        holds(getattr(limits, field.name) == value >= 0, "ceilings are as sent", field.name)


_MESSAGES: Final[tuple[tuple[Any, Callable[[Any], None]], ...]] = (
    (exec_pb2.ExecRequest, _request),
    (sandbox_pb2.CreateSandboxRequest, _sandbox),
    (sandbox_pb2.ListSandboxesRequest, _filter),
    (common_pb2.Outcome, _outcome),
    (session_pb2.BudgetLimits, _budget),
)

_TEXTS: Final = ("/workspace", "/a/../b", "a.txt", "root", "make", "A", "", "x" * 300)
#: As JSON text, what each argument may be.
_FITTING: Final = {
    "command": ('"make"', '"a\\nb"'), "argv": ('["git", "status"]', '["a"]', '[""]', '["a", "\\u0000"]'),
    "path": ('"a.txt"', '"/workspace/../etc"', '"/"'), "to": ('"b.txt"',), "cwd": ('"/workspace"', '"/a/."', '"//"'),
    "env": ('{"A": "1"}', '{"1A": ""}', '{"A": "1", "A": "2"}', '{"A=B": ""}'), "user": ('"root"', '"0"', '"-u"'),
    "timeout_ms": ("50", "49", "3600000", "3600001"), "content": ('"text"', '"\\ud83d\\ude00"'),
    "content_base64": ('"AAEC"', '"AA=="', '"A A"', '"AA"'), "mode": ("420", "511", "512"),
}  # fmt: skip

_CALLS: Final = (
    ("Bash", '{"command": "make test"}'),
    ("Bash", '{"command": "env", "env": {"A": "1"}, "cwd": "/workspace", "timeout_ms": 1000, "user": "root"}'),
    ("Exec", '{"argv": ["git", "status"], "cwd": "/workspace/src"}'),
    ("Read", '{"path": "/workspace/a.txt"}'),
    ("Write", '{"path": "a.txt", "content": "text \\u00e4"}'),
    ("Write", '{"path": "a.bin", "content_base64": "AAEC"}'),
    ("List", '{"path": "."}'),
    ("Bash", '{"command": "a", "command": "b"}'),
    ("Bash", '{"command": "a\\u0000b"}'),
    ("Bash", '{"command": "\\ud800"}'),
    ("Bash", '{"command": "x", "timeout_ms": 9007199254740993}'),
    ("Bash", '{"command": "x", "timeout_ms": 1e3}'),
    ("Bash", '{"command": "x", "cwd": "/a/../b"}'),
    ("Bash", '{"command": null}'),
    ("Bash", '{"command": "' + "x" * _ARGUMENTS_MAX + '"}'),
    ("Bash", '{"command": ' + "[" * 80 + "]" * 80 + "}"),
)


def seeds() -> list[bytes]:
    """Messages as clients send them, and arguments that readers of JSON disagree about."""
    start = exec_pb2.StartCall(
        session_id="s", sandbox_id="b", call_id="c", tool="Bash", arguments_json=b'{"command": "ls"}', tag="build",
        limits=exec_pb2.CallLimits(wall_ms=1000, output_bytes=4096),
        terminal=exec_pb2.TerminalSize(columns=80, rows=24), on_disconnect=exec_pb2.ON_DISCONNECT_KEEP,
    )  # fmt: skip
    messages: list[tuple[int, Message]] = [
        (0, exec_pb2.ExecRequest(start=start)),
        (0, exec_pb2.ExecRequest(start=exec_pb2.StartCall(tool="Bash", limits=exec_pb2.CallLimits(wall_ms=7)))),
        (0, exec_pb2.ExecRequest(start=exec_pb2.StartCall(tool="Bash", limits=exec_pb2.CallLimits(wall_ms=-1)))),
        (0, exec_pb2.ExecRequest(resize=exec_pb2.TerminalSize(columns=1, rows=70_000))),
        (0, exec_pb2.ExecRequest(signal=exec_pb2.SendSignal(signal=15))),
        (1, sandbox_pb2.CreateSandboxRequest(template="base", ttl_s=60, idle_action=sandbox_pb2.IDLE_ACTION_PAUSE)),
        (1, sandbox_pb2.CreateSandboxRequest(limits=sandbox_pb2.SandboxLimits(memory_bytes=1 << 28, pids=64))),
        (1, sandbox_pb2.CreateSandboxRequest.FromString(b"\x38\x63")),
        (2, sandbox_pb2.ListSandboxesRequest(labels={"a": "b"}, states=["ready"])),
        (3, common_pb2.Outcome(kind=common_pb2.OUTCOME_KIND_EXITED, detail="x" * 1001)),
        (4, session_pb2.BudgetLimits(calls=5, wall_s=60)),
        (4, session_pb2.BudgetLimits(calls=-5)),
    ]  # fmt: skip
    made = [bytes([len(_MESSAGES) + 1, at]) + bytes(range(at, at + 20)) for at in range(len(_TOOLS))]
    read = [bytes([kind]) + message.SerializeToString(deterministic=True) for kind, message in messages]
    return made + read + [bytes([len(_MESSAGES), _TOOLS.index(tool)]) + text.encode() for tool, text in _CALLS]


_ARGUMENTS: Final = "normalize/arguments.py"
TARGET: Final = Target(
    id="F1",
    title="requests: protobuf, strict JSON, schemas, bounds",
    one=one,
    seeds=seeds,
    modules=("opensafe.api", "opensafe.normalize.arguments", "opensafe.normalize.tools", "opensafe.model.canonical"),
    floor=100,
    words=(
        b'{"command": "', b'"argv": [', b'"env": {', b'"path": "', b'"content": "', b'"cwd": "/', b"null", b"1e9",
        b"NaN", b"\\u0000", b"\\ud800", b"\xed\xa0\x80", b"9007199254740993", b"/../", b'"command"',
        b"\xff\xff\xff\xff\x0f",
    ),
    mutants=(
        Mutant(
            id="F1-size", file=_ARGUMENTS, old="if len(data) > max_bytes:", new="if False:",
            says="arguments have no bound",
        ),
        Mutant(
            id="F1-default", file="api/convert.py",
            old='raise InvalidArgument(f"{what}: {error}", value=asked, remedy=remedy) from error', new="return kind()",
            says="what can't be read becomes a default request",
        ),
        Mutant(
            id="F1-duplicate", file=_ARGUMENTS, old="if len(value) != len(pairs):", new="if False:",
            says="a key may stand twice",
        ),
        Mutant(
            id="F1-nul", file=_ARGUMENTS, old='if "\\0" in value:', new="if False:",
            says="texts may hold a NUL",
        ),
        Mutant(
            id="F1-enum", file="api/sandbox_messages.py",
            old="_ACTIONS_BACK.get(message.idle_action, str(message.idle_action))",
            new='_ACTIONS_BACK.get(message.idle_action, "delete")',
            says="an unknown enum value is taken for a known one",
        ),
        Mutant(
            id="F1-cwd", file="normalize/tools.py", old='if resolve(cwd, "/") != cwd:', new="if False:",
            says="a working directory may hold dots",
        ),
    ),
)  # fmt: skip
