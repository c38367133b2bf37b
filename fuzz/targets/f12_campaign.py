"""F12: the escape campaign's generator. Bytes to system calls and to tool calls, and these on their way to the guest.

Reference: an interpreter of classic BPF that runs the call filter as it is installed, and a few calls that no profile
may let through, named here again; for a tool call, its own words, which must reach the guest's runner as they are.
"""

import errno
import functools
import random
import struct
from typing import Final

import msgspec

from opensafe.errors import OpenSafeError, RequestError
from opensafe.model.calls import ToolCall
from opensafe.model.decision import Grant, PathGrant
from opensafe.model.facts import ClassTables
from opensafe.model.sandbox import Launch
from opensafe.normalize.tools import DEFAULT_REGISTRY
from opensafe.policy.subject import build_launch, call_input
from opensafe.proof.campaign import generator, tool_calls, wire
from opensafe.proof.campaign.answers import Expectation, Said
from opensafe.proof.campaign.mutation import mutate
from opensafe.proof.campaign.wire import Answer, Sequence
from opensafe.proof.fuzzing.target import Target, holds
from opensafe.proof.mutants import Mutant
from opensafe.warden import protocol
from opensafe.warden.sandbox import runner, seccomp
from opensafe.warden.sandbox.syscalls import NUMBERS

_PROFILE: Final = "default"
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_X86_64, _I386 = 0xC000003E, 0x40000003
_ARGUMENTS_MAX: Final = 1 << 20
_ROOTS: Final = ("/workspace", "/tmp")  # noqa: S108 - the guest's
_GRANT: Final = Grant(paths=PathGrant(read=_ROOTS, write=_ROOTS))
_PLACES: Final = {"canary": "/c", "listener": "/c/s", "sentinel": "127.200.0.1", "other": "192.0.2.2", "port": "9"}
#: Of sandboxes and executions, in the warden's form.
_SANDBOX, _EXEC = "sb-" + "0" * 20, "exec-" + "0" * 20
#: No guest may make these: namespaces, mounts, modules, other processes' memory, keys.
_NEVER: Final = frozenset(
    NUMBERS[name]
    for name in (
        *(
            "mount",
            "umount2",
            "pivot_root",
            "chroot",
            "unshare",
            "setns",
            "ptrace",
            "process_vm_readv",
            "bpf",
            "reboot",
        ),
        *("init_module", "finit_module", "kexec_load", "keyctl", "add_key", "perf_event_open", "userfaultfd", "iopl"),
        *("open_by_handle_at", "process_vm_writev", "io_uring_setup", "fsopen", "move_mount", "swapon", "acct"),
    )
)
#: Dies of it, and does not only hear no.
_DEADLY: Final = frozenset(NUMBERS[name] for name in ("mount", "init_module", "reboot", "bpf", "setns", "kexec_load"))
_RECORD: Final = protocol.RecordRef(segment=0, offset=0, length=1, leaf="0" * 64)
_CLONE_NEW: Final = 0x7E020000
_TIOCSTI, _PR_SET_CHILD_SUBREAPER, _AF_PACKET = 0x5412, 36, 17


def one(data: bytes) -> None:
    """The first byte says whether they are system calls, with or without the filter, or tool calls."""
    way, rest = data[:1] or b"\0", data[1:]
    if way[0] % 3 == 2:
        for call in tool_calls.calls(rest, _PLACES):
            _tool_call(call)
        return
    filtered = way[0] % 3 == 0
    sequence = generator.sequence(rest, filtered=filtered)
    _sequence(sequence, filtered=filtered)


# System calls


@functools.cache
def _expectation() -> Expectation:
    return Expectation(_PROFILE)


@functools.cache
def _filter() -> tuple[tuple[int, int, int, int], ...]:
    return tuple(struct.iter_unpack("=HBBI", seccomp.program(_PROFILE)))


def _installed(number: int, arguments: tuple[int, ...], architecture: int = _X86_64) -> int:
    """What the filter returns, run as the kernel runs it (networking/filter.rst)."""
    words = [word & (1 << 64) - 1 for word in (*arguments, *([0] * 6))][:6]
    data = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, architecture, 0, *words)
    program, at, value = _filter(), 0, 0
    for _ in range(len(program)):
        code, if_true, if_false, k = program[at]
        at += 1
        match code:
            case 0x20:
                value = int.from_bytes(data[k : k + 4], "little")
            case 0x54:
                value &= k
            case 0x05:
                at += k
            case 0x15:
                at += if_true if value == k else if_false
            case 0x35:
                at += if_true if value >= k else if_false
            case 0x06:
                return k
            case _:
                holds(False, "the filter holds no other instructions", hex(code))
    holds(False, "the filter ends", number)
    return 0


def _sequence(sequence: Sequence, *, filtered: bool) -> None:
    holds(generator.LEAST <= len(sequence.calls) <= wire.CALLS_MAX, "a run is long enough", len(sequence.calls))
    size = len(wire.encode(b"", [(1, sequence)], 1))
    holds(size == 8 + 16 + 16 * len(sequence.pokes) + 56 * len(sequence.calls), "it has the executor's form", size)
    for place, call in enumerate(sequence.calls):
        meant = [value for at, value in enumerate(call.arguments) if call.earlier >> at & 1]
        holds(all(value < place for value in meant), "a call means earlier ones", call)
        if meant:
            continue
        verdict = _installed(call.number, call.arguments)
        holds(verdict == _expectation().of(call.number, call.arguments), "the filter is what was decided", call)
        holds(_installed(call.number, call.arguments, _I386) == _ERRNO | errno.EXDEV, "no other architecture", call)
        _never(call.number, call.arguments, verdict)
        if verdict == _KILL:
            holds(not filtered or place == len(sequence.calls) - 1, "what kills is the last", call)
    _oracle(sequence)


def _never(number: int, arguments: tuple[int, ...], verdict: int) -> None:
    first, second = (*arguments, 0, 0)[:2]
    refused = (
        number in _NEVER
        or number >= 1 << 30
        or (number == NUMBERS["clone"] and first & _CLONE_NEW)
        or (number == NUMBERS["ioctl"] and second & 0xFFFFFFFF == _TIOCSTI)
        or (number == NUMBERS["prctl"] and first & 0xFFFFFFFF == _PR_SET_CHILD_SUBREAPER)
        or (number == NUMBERS["socket"] and first & 0xFFFFFFFF == _AF_PACKET)
    )
    if refused:
        holds(verdict != _ALLOW, "what no guest may do is refused", (number, arguments))
    if number in _DEADLY:
        holds(verdict == _KILL, "what nobody honest does ends it", number)


def _oracle(sequence: Sequence) -> None:
    """The campaign's own eyes: answers as the filter gives them are none of its findings, and each other one is."""
    expectation, results, status = _expectation(), [], 0
    for call in sequence.calls:
        known = not call.earlier
        said = expectation.says(call.number, call.arguments) if known else Said.ALLOWED
        if known and said is Said.FATAL:
            status = 31
            break
        results.append(-(expectation.of(call.number, call.arguments) & 0xFFFF) if said is Said.REFUSED else 0)
    answered = [place for place, call in enumerate(sequence.calls[: len(results)]) if not call.earlier]
    refused = [place for place in answered if results[place]]

    def seen(given: list[int]) -> set[int]:
        answer = Answer(id=1, status=status, made=min(len(given) + 1, len(sequence.calls)), results=tuple(given))
        return {miss.at for miss in expectation.misses(sequence, answer)} & set(answered)

    holds(seen(results) == set(), "what is as it has to be is no finding", seen(results))
    for place in refused[:3]:
        wrong = [*results[:place], 0, *results[place + 1 :]]
        holds(place in seen(wrong), "a call that got through is a finding", sequence.calls[place])


# Tool calls


def _tool_call(sent: tool_calls.ToolCall) -> None:
    try:
        call = DEFAULT_REGISTRY.validate("call-1", sent.tool, msgspec.json.encode(sent.arguments), _ARGUMENTS_MAX)
        facts = DEFAULT_REGISTRY.facts(call, ClassTables())
    except RequestError as error:
        holds(error.reason and error.message, "a refusal has its reason", repr(error))
        return
    asked = call_input(call, facts, DEFAULT_REGISTRY.spec(call.tool))
    holds(asked.arguments == call.sealed and asked.digest == call.digest, "policy is asked about what was sent", asked)
    if DEFAULT_REGISTRY.user(call):
        return  # whom the daemon looks up first
    try:
        launch = build_launch(DEFAULT_REGISTRY, call, _GRANT, _SANDBOX, _EXEC)
    except OpenSafeError:
        return  # outside of what was granted
    _launched(call, launch)


def _launched(call: ToolCall, launch: Launch) -> None:
    program = launch.program
    if call.tool == "Bash":
        holds(program.argv[-1] == call.arguments["command"], "the shell gets the text that was judged", program.argv)
    if call.tool == "Exec":
        holds(list(program.argv) == call.arguments["argv"], "the program gets the words that were judged", program.argv)
    holds(program.cwd.startswith("/") and "\0" not in program.cwd, "a program has a place", program.cwd)
    start = protocol.Start(request=1, launch=launch, decision=_RECORD)
    packet = msgspec.msgpack.encode(start)
    holds(len(packet) <= protocol.MAX_PACKET, "an operation fits into a packet", len(packet))
    read = msgspec.msgpack.decode(packet, type=protocol.Start)
    holds(read == start, "the warden reads what was written", packet)
    holds(read.launch.subject_digest() == launch.subject_digest(), "and knows it by the same digest", packet)
    told = runner.packet(launch)
    if told is None:
        return
    words, variables = struct.unpack_from("<II", told)
    texts = told[8:].split(b"\0")[:-1]
    holds(len(texts) == words + variables, "the runner is told as many words as there are", (words, variables))
    holds(texts[words - len(program.argv) : words] == [word.encode() for word in program.argv], "and these", texts)
    variable = {text.partition(b"=")[0]: text.partition(b"=")[2] for text in texts[words:]}
    for name, value in program.env.items():
        holds(variable[name.encode()] == value.encode(), "and the variables", name)


def seeds() -> tuple[bytes, ...]:
    """A few runs of each kind, as a campaign draws them."""
    drawn = random.Random(12)  # noqa: S311 - reproducible is the point
    return tuple(bytes([kind]) + drawn.randbytes(generator.BYTES) for kind in range(3) for _ in range(12))


TARGET: Final = Target(
    id="F12",
    title="the escape campaign's runs: system calls to the filter, tool calls to the runner",
    one=one,
    seeds=seeds,
    modules=(
        "opensafe.normalize", "opensafe.policy.subject", "opensafe.proof.campaign.answers",
        "opensafe.proof.campaign.generator", "opensafe.proof.campaign.tool_calls", "opensafe.warden.protocol",
        "opensafe.warden.sandbox.bpf", "opensafe.warden.sandbox.runner", "opensafe.warden.sandbox.seccomp",
    ),
    floor=1_400,
    runs=2000,
    longest=1024,
    mutate=mutate,
    mutants=(
        Mutant(
            id="F12-a", file="warden/sandbox/bpf.py", says="a range of numbers begins one too late",
            old="self._branch(_JUMP_IF_NOT_BELOW, ranges[middle].first, upper",
            new="self._branch(_JUMP_IF_NOT_BELOW, ranges[middle].first + (middle > 4), upper",
        ),
        Mutant(
            id="F12-b", file="warden/sandbox/seccomp.py", says="one kind of new namespace is not looked at",
            old="_CLONE_NEW: Final = 0x7E020000", new="_CLONE_NEW: Final = 0x6E020000",
        ),
        Mutant(
            id="F12-c", file="warden/sandbox/seccomp.py", says="what has to kill is only refused",
            old="(profile.fatal, bpf.KILL_PROCESS)", new="(profile.fatal, bpf.errno(errno.ENOSYS))",
        ),
        Mutant(
            id="F12-d", file="normalize/tools.py", says="a program's words are cut anew",
            old='return program_of(tuple(sealed["argv"]), sealed)',
            new='return program_of(tuple(" ".join(sealed["argv"]).split()), sealed)',
        ),
        Mutant(
            id="F12-e", file="warden/sandbox/runner.py", says="the runner is told one word too few",
            old="_HEAD.pack(len(words), len(variables))", new="_HEAD.pack(len(words) - 1, len(variables))",
        ),
        Mutant(
            id="F12-f", file="proof/campaign/answers.py", says="the campaign's oracle takes success for an answer",
            old="fine = not came_back or answer.results[at] == -(verdict & 0xFFFF)",
            new="fine = not came_back or answer.results[at] <= 0",
        ),
    ),
)  # fmt: skip
