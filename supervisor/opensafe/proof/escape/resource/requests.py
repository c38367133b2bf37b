"""Rows about what a client sends: messages that are huge, deep or many, and questions that policy is slow to answer."""

import secrets
from collections.abc import Iterator
from typing import Final

import msgspec

from opensafe.config import PolicySettings
from opensafe.errors import OpenSafeError
from opensafe.policy.watchdog import PATIENCE
from opensafe.proof.escape import wire
from opensafe.proof.escape.ground import opened
from opensafe.proof.escape.probe import Run

from . import counters
from .daemons import Kind
from .ground import Ground

_MIB: Final = 1 << 20
#: By how much the front may grow.
_RESIDENT: Final = 96 * _MIB
_HUGE: Final = 64 * _MIB
_REFUSED: Final = "RESOURCE_EXHAUSTED"
#: Names in one command, each of which policy judges; and how long it may ever take (policy/watchdog.py).
_HOSTS: Final = 1000
_LONGEST_MS: Final = PolicySettings().deadline_ms * PATIENCE * 2
_CREATE_SESSION: Final = f"{wire.SESSIONS}CreateSession"
_CREATE_SANDBOX: Final = f"{wire.SANDBOXES}CreateSandbox"
_DECIDE: Final = f"{wire.POLICY}Decide"


async def messages(ground: Ground, kind: Kind) -> Run:
    """RS-17: messages as bytes, since no client of ours would make them."""
    daemon = await ground.daemon(kind)
    answers: dict[str, str] = {}
    taken: list[str] = []
    async with ground.memory, daemon.client() as client, opened(client, "huge") as session:
        front = daemon.front
        resident = counters.begin_peak(front)
        async with wire.Channel(daemon.socket_of("default")) as channel:
            for message in _hostile(session):
                code = (await channel.ask(message.method, message.content, metadata=message.metadata)).code
                answers[message.name] = code
                if message.too_large and code != _REFUSED:
                    taken.append(f"{message.name}: {code}")
        grown = counters.peak(front) - resident
    found = [
        *([f"{grown >> 20} MiB resident more"] if grown > _RESIDENT else []),
        *taken,
        *(["the front did not survive it"] if daemon.front != front else []),
    ]
    return Run(
        began=bool(answers),
        finished=bool(answers),
        found="; ".join(found),
        layer=f"the server's own limits, {_REFUSED}: {grown >> 20} MiB resident more",
        hints=tuple(f"{name}: {code}" for name, code in answers.items()),
    )


async def slow(ground: Ground, kind: Kind) -> Run:
    """RS-18: a call that policy takes longer to judge than it may."""
    daemon, nonce = await ground.daemon(kind), secrets.token_hex(8)
    hosts = " ".join(f"https://host-{number}.test/" for number in range(_HOSTS))
    async with daemon.sandbox() as (client, session, sandbox):
        starts = daemon.starts()
        call_id = f"slow-{nonce}"
        try:
            said = await client.run_call(session, sandbox, call_id, "Bash", {"command": f"echo {nonce}; curl {hosts}"})
            stdout = said.stdout
        except OpenSafeError:
            stdout = b""
        started = daemon.starts() - starts
        record = next((one for one in daemon.records("decision") if one["call_id"] == call_id), None)
    if record is None:
        return Run(began=False, finished=False)
    took_ms = record["metrics"]["timer_rego_query_eval_ns"] / 1e6
    late = any("deadline" in hit["reason"] for hit in record["result"]["rules"])
    found = [
        *([f"judged for {took_ms:.0f} ms"] if took_ms > _LONGEST_MS else []),
        *([f"allowed without a verdict, {started} started"] if record["result"]["action"] == "allow" else []),
        *(["the program wrote its nonce"] if nonce.encode() in stdout else []),
    ]
    return Run(
        began=True,
        finished=late or bool(found),
        found="; ".join(found),
        layer=f"the evaluation's deadline, after {took_ms:.0f} ms: {record['result']['action']}, {started} started",
        fault="" if late or found else f"policy was done within its time, in {took_ms:.0f} ms",
    )


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    """too_large: it must be refused for its size, by that name."""

    name: str
    method: str
    content: bytes
    metadata: tuple[tuple[str, str], ...] = ()
    too_large: bool = True


def _hostile(session: str) -> Iterator[_Message]:
    """A nested JSON value has its own limit, and so has what a map may hold that fits into a message."""
    labels = b"".join(b"\x22\x0c\x0a\x07k%06d\x12\x01v" % number for number in range(1_000_000))
    header = tuple((f"x-{number}", "v" * 1000) for number in range(64))
    deep = b'{"command":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    long = b'{"command":"' + b"a" * (4 * _MIB) + b'"}'
    yield _Message(name="one huge field", method=_CREATE_SESSION, content=wire.message(f1=b"a" * _HUGE))
    yield _Message(name="metadata", method=_CREATE_SESSION, content=b"", metadata=header)
    yield _Message(name="a map of a million keys", method=_CREATE_SANDBOX, content=wire.message(f1=session) + labels)
    few = labels[: 14 * 200_000]
    yield _Message(name="one of fewer", method=_CREATE_SANDBOX, content=wire.message(f1=session) + few, too_large=False)
    yield _Message(
        name="groups in groups", method=_CREATE_SESSION, content=b"\x0b" * 20_000 + b"\x0c" * 20_000, too_large=False
    )
    for name, arguments in (("deep arguments", deep), ("long arguments", long)):
        yield _Message(name=name, method=_DECIDE, content=wire.message(f1=session, f2="Bash", f3=arguments))
