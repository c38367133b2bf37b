"""Another principal's sessions, sandboxes, calls and files, by their ids: CP-03."""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final

from opensafe.client import Client
from opensafe.errors import OpenSafeError
from opensafe.proof.escape import wire
from opensafe.proof.escape.ground import boxed
from opensafe.proof.escape.host import nonce
from opensafe.proof.escape.probe import Run, Severity
from opensafe.proof.escape.trial import Trial

from .ground import SHIPPED, Yard
from .row import row
from .site import AGENT, NEIGHBOUR

_FILE: Final = "/workspace/note"
_CALL: Final = "call-1"
#: Headers that say who is asking.
_CLAIM: Final = (("principal", AGENT[0]), ("authorization", AGENT[0]))
#: Why something was not done, where nobody said no.
_FAILED: Final = frozenset(("INTERNAL", "UNAVAILABLE"))

Theft = Callable[[], Awaitable[Any]]


def _thefts(thief: Client, own: str, session: str, sandbox: str, decision: str) -> Iterator[tuple[str, Theft]]:
    """What is tried, and with which name; what destroys comes last. own: a session of the thief's."""
    read = {"command": f"cat {_FILE}"}
    yield "Exec", lambda: thief.run_call(session, sandbox, "theft-1", "Bash", read)
    yield "Exec in the own session", lambda: thief.run_call(own, sandbox, "theft-2", "Bash", read)
    yield "ReadFile", lambda: thief.files(session, sandbox).read_bytes(_FILE)
    yield "ReadFile in the own session", lambda: thief.files(own, sandbox).read_bytes(_FILE)
    yield "ListCalls", lambda: thief.list_calls(session)
    yield "GetCall", lambda: thief.get_call(session, _CALL)
    yield "Attach", lambda: _events(thief, session)
    yield "GetSandbox", lambda: thief.get_sandbox(sandbox)
    yield "ListSandboxes", thief.list_sandboxes
    yield "SignalCall", lambda: thief.signal_call(session, _CALL, 9)
    yield "Decide", lambda: thief.decide(session, "Bash", read)
    yield "Begin", lambda: thief.begin(session, "theft-3", "Bash", read)
    yield "Explain", lambda: thief.explain(decision)
    yield "ListConnections", lambda: thief.list_connections(sandbox)
    yield "ExplainEgress", lambda: thief.explain_egress("example.test", sandbox)
    yield "WriteFile", lambda: thief.files(session, sandbox).write(_FILE, b"theirs")
    yield "ReportUsage", lambda: thief.report_usage(session, tokens=1)
    yield "TailAudit", lambda: _tailed(thief)
    yield "CreateSandbox", lambda: thief.create_sandbox(session)
    yield "PauseSandbox", lambda: thief.pause_sandbox(sandbox)
    yield "RenewSandbox", lambda: thief.renew_sandbox(sandbox)
    yield "DeleteSandbox", lambda: thief.delete_sandbox(sandbox)
    yield "CloseSession", lambda: thief.close_session(session)


async def _events(thief: Client, session: str) -> list[Any]:
    return [event async for event in thief.attach(session, _CALL)]


async def _tailed(thief: Client) -> list[Any]:
    return [record async for record in thief.tail_audit(50)]


async def _attack(yard: Yard, on: str = SHIPPED) -> Run:
    """A neighbour with the right ids, and without a session, and in one that has ended."""
    site = await yard.site(on)
    word = nonce()
    async with (
        site.client() as owner,
        site.client(NEIGHBOUR[0]) as thief,
        boxed(owner, word, closes=False) as (session, sandbox),
    ):
        await owner.files(session, sandbox).write(_FILE, word.encode())
        done = await owner.run_call(session, sandbox, _CALL, "Bash", {"command": f"echo {word}"})
        own = await thief.create_session("thief")
        before = len(site.records())
        got, refused = await _tried(
            dict(_thefts(thief, own, session, sandbox, done.verdict.decision_id)), word, sandbox
        )
        await thief.close_session(own)
        got += (await _tried({"Exec in a closed session": lambda: _mine(thief, own, sandbox)}, word, sandbox))[0]
        get = wire.message(f1=session, f2=_CALL)
        claimed = await wire.ask(site.socket(NEIGHBOUR[0]), f"{wire.EXEC}GetCall", get, metadata=_CLAIM)
        got += ["GetCall with a claim"] if claimed.code == "OK" else []
        recorded = site.records()[before:]
        still = site.records("session", session_id=session, state="closed") == []
    theirs = [one["kind"] for one in recorded if _stolen(one, session, sandbox)]
    found = [*(f"{name} answered" for name in got), *(f"a {kind} of the thief's on record" for kind in theirs)]
    return Run(
        began=word.encode() in done.stdout,
        finished=_FAILED.isdisjoint(refused.values()),
        found="; ".join((found + ([] if still else ["the session was closed"]))[:4]),
        layer=f"not found by owner: {', '.join(sorted(set(refused.values())))}",
        hints=tuple(f"{name}: {why}" for name, why in refused.items()),
    )


async def _mine(thief: Client, session: str, sandbox: str) -> Any:  # noqa: ANN401 - a call's result
    return await thief.run_call(session, sandbox, "late", "Bash", {"command": "echo late"})


async def _tried(thefts: dict[str, Theft], word: str, sandbox: str) -> tuple[list[str], dict[str, str]]:
    """Those that were answered with something of the owner's, and why others were not."""
    got, refused = [], {}
    for name, theft in thefts.items():
        try:
            answer = await theft()
        except OpenSafeError as error:
            refused[name] = error.reason
            continue
        # A list may be of the thief's own; its records name the ids that it asked for.
        telling = (word,) if name == "TailAudit" else (word, sandbox)
        if not name.startswith(("List", "Tail")) or any(one in repr(answer) for one in telling):
            got.append(name)
    return got, refused


def _stolen(record: dict[str, Any], session: str, sandbox: str) -> bool:
    """Whether it is a thing done by the neighbour to what is the owner's."""
    ours = record.get("session_id") == session or record.get("sandbox_id") == sandbox
    return bool(ours and record["kind"] != "refusal" and record.get("principal") == NEIGHBOUR[0])


TRIALS: Final[tuple[Trial, ...]] = (
    row(
        id="CP-03",
        title="another principal's session, sandbox, calls and files by their ids; no session, and one that has ended",
        severity=Severity.LATERAL,
        attacks=("T1078", "T1550"),
        breach="an answer with the owner's nonce, a record of the thief's in the owner's session, or its end",
        control="mutant: an id is enough",
        attempts=(_attack,),
        weak=partial(_attack, on="unguarded"),
    ),
)
