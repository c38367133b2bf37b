"""What `run` and `call` share: a place to run in, the call's streams passed through, and what is said at its end.

Output is written as the bytes that came, without a buffer of our own, so that a slow reader slows the program
instead of filling memory.
"""

import secrets
from contextlib import AsyncExitStack, aclosing
from typing import Any, Final

import msgspec

from opensafe.client import (
    Call,
    CallInfo,
    CallResult,
    Client,
    Decided,
    Ended,
    Gap,
    Started,
    Stderr,
    Stdout,
    Verdict,
    collect,
)
from opensafe.errors import InvalidArgument
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind

from . import exits, present, streams, terminal
from .place import Place, opened
from .report import encode, report, text_or_base64

#: Bytes of each stream that `--json` holds.
KEPT_OUTPUT: Final = 1 << 20


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """One call as the command line asks for it."""

    tool: str
    arguments: dict[str, Any]
    call_id: str | None = None
    sandbox_id: str | None = None
    keep: bool = False
    wait: bool = False
    json: bool = False
    pass_stdin: bool = False
    tty: bool = False
    detach: bool = False
    tag: str = ""


async def perform(client: Client, wish: Wish) -> int:
    """Run the call and return the exit status. Raises the exceptions of opensafe.errors."""
    call_id = wish.call_id or f"cli-{secrets.token_hex(8)}"
    stdin = streams.read(0) if wish.pass_stdin and not wish.tty and streams.is_piped(0) else None
    if wish.tty and (wish.detach or wish.json):
        raise InvalidArgument("--tty goes with neither --detach nor --json", remedy="Leave one of them out.")
    if wish.detach and stdin is not None:
        raise InvalidArgument("a detached call takes no standard input from here", remedy="Redirect it from /dev/null.")
    async with opened(client, wish.sandbox_id, keep=wish.keep) as place:
        call = client.call(
            place.session_id,
            place.sandbox_id,
            call_id,
            wish.tool,
            wish.arguments,
            stdin=stdin,
            interactive=wish.tty,
            wait_for_review=wish.wait,
            tag=wish.tag,
            background=wish.detach,
            terminal=terminal.size() if wish.tty else None,
        )
        if wish.detach:
            return await _leave(wish, call_id, place, call)
        if wish.json:
            return _print(wish.tool, call_id, await collect(call, KEPT_OUTPUT))
        return await _pass_through(wish, call_id, call, lend=wish.tty)


async def follow(client: Client, found: CallInfo, *, offset: int, json: bool) -> int:
    """Attach to a call and end as it ends. Raises the exceptions of opensafe.errors."""
    call = client.attach(found.session_id, found.call_id, offset=offset, wait_for_review=True)
    if json:
        return _print(found.tool, found.call_id, await collect(call, KEPT_OUTPUT))
    wish = Wish(tool=found.tool, arguments={}, sandbox_id=found.sandbox_id, wait=True)
    return await _pass_through(wish, found.call_id, call, lend=found.terminal and terminal.is_here())


async def _pass_through(wish: Wish, call_id: str, call: Call, *, lend: bool) -> int:
    verdict: Verdict | None = None
    outcome: Outcome | None = None
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(aclosing(call))
        async for event in call:
            match event:
                case Stdout(data):
                    streams.write(1, data)
                case Stderr(data):
                    streams.write(2, data)
                case Gap(start, end):
                    present.say(f"bytes {start} to {end} of the output are not retained")
                case Decided(verdict):
                    if wish.wait and verdict.action is Action.REVIEW:
                        _say_verdict(f"waiting for a reviewer: {wish.tool}", verdict)
                case Started() if lend:
                    await stack.enter_async_context(terminal.lent(call))
                case Ended():
                    outcome = event.outcome
    if verdict is None or outcome is None:
        return exits.Exit.LOST
    _say_end(wish, call_id, verdict, outcome)
    return exits.of_outcome(outcome)


async def _leave(wish: Wish, call_id: str, place: Place, call: Call) -> int:
    """Start the call and leave it; 0 where it runs."""
    verdict: Verdict | None = None
    async with aclosing(call):
        async for event in call:
            match event:
                case Decided(verdict):
                    pass
                case Started(exec_id, _):
                    place.keep()
                    if wish.json:
                        summary = {"call_id": call_id, "session_id": place.session_id, "exec_id": exec_id}
                        present.raw(encode(report("detached", summary, {"verdict": verdict})))
                    else:
                        present.out(call_id)
                    return exits.Exit.OK
                case Ended(outcome) if verdict is not None:
                    result = CallResult(verdict=verdict, outcome=outcome)
                    if wish.json:
                        return _print(wish.tool, call_id, result)
                    _say_end(wish, call_id, verdict, outcome)
                    return exits.of_outcome(outcome)
    return exits.Exit.LOST


def _print(tool: str, call_id: str, result: CallResult) -> int:
    present.raw(encode(_report(tool, call_id, result)))
    return exits.of_outcome(result.outcome)


def _say_end(wish: Wish, call_id: str, verdict: Verdict, outcome: Outcome) -> None:
    """Say what the exit status alone would leave open; an ordinary end is silent."""
    match outcome.kind:
        case OutcomeKind.BLOCKED:
            _say_verdict(f"blocked by policy: {wish.tool}", verdict)
        case OutcomeKind.REVIEW_PENDING:
            _say_verdict(f"parked for review: {wish.tool}", verdict, then=_how_to_go_on(wish, call_id))
        case OutcomeKind.EXITED:
            pass
        case _:
            present.say(f"{wish.tool} {present.outcome_text(outcome)}")
    if outcome.truncated:
        present.say(f"output was cut; written were {outcome.stdout_bytes} + {outcome.stderr_bytes} bytes")


def _say_verdict(headline: str, verdict: Verdict, *, then: str = "") -> None:
    present.say(headline)
    for line in present.verdict_lines(verdict, then=then):
        present.note(line)


def _how_to_go_on(wish: Wish, call_id: str) -> str:
    if wish.sandbox_id is None:
        return "The sandbox was for this call alone: use --wait, or --sandbox with one that stays."
    return f"Once approved it runs, once; the same command with --call-id {call_id} shows how it ended."


def _report(tool: str, call_id: str, result: CallResult) -> dict[str, Any]:
    verdict, outcome = result.verdict, result.outcome
    return report(
        "call",
        {
            "action": verdict.action,
            "outcome": outcome.kind,
            "exit_code": outcome.exit_code,
            "decision_ms": verdict.decision_ns / 1e6,
            "run_ms": outcome.run_ns / 1e6,
        },
        {
            "call_id": call_id,
            "tool": tool,
            "verdict": verdict,
            "outcome": outcome,
            "stdout": text_or_base64(result.stdout),
            "stderr": text_or_base64(result.stderr),
            "stdout_dropped_bytes": result.stdout_dropped,
            "stderr_dropped_bytes": result.stderr_dropped,
            "missed_bytes": result.missed,
        },
    )
