"""The figures of a campaign, and whether they hold."""

import collections
import errno
from collections.abc import Iterable, Mapping
from typing import Any, Final

from opensafe.warden.sandbox.syscalls import NUMBERS

from .batch import Kind
from .campaign import Result
from .minimise import Minimal
from .oracles import HARMLESS, TITLES, Finding, Oracle
from .wire import SystemCall

#: One-sided.
CONFIDENCE: Final = 0.95
_NAMES: Final = {number: name for name, number in NUMBERS.items()}
_HALVINGS: Final = 60


def upper_bound(hits: int, of: int, confidence: float = CONFIDENCE) -> float:
    """The one-sided upper bound of a rate of which `hits` of `of` were seen (Clopper and Pearson, Biometrika 26, 1934).

    Of none in n it is 1 - (1 - confidence)^(1/n).
    """
    if not 0 <= hits <= of:
        raise ValueError(f"{hits} of {of} is no share")
    if hits == of:
        return 1.0
    low, high = hits / of, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(hits, of, middle) > 1 - confidence else (low, middle)
    return high


def _at_most(hits: int, of: int, share: float) -> float:
    """The probability of so few hits at this share: the sum of binomial terms, each out of the one before."""
    term = (1 - share) ** of
    total = term
    for k in range(hits):
        term *= (of - k) / (k + 1) * share / (1 - share)
        total += term
    return total


def summary(result: Result) -> dict[str, Any]:
    """The headline. ok: enough runs, a quarter of them gated, nothing raised, none without an answer, all planted."""
    completed = sum(one.completed for one in result.done)
    gated = sum(one.completed for one in result.done if one.kind is Kind.GATED)
    findings = [finding for one in result.done for finding in one.findings]
    escapes = [finding for finding in findings if finding.oracle not in HARMLESS]
    bad = len({(finding.batch, finding.run) for finding in escapes})
    lost = sum(len(one.lost) for one in result.done)
    raised = sum(check.raised for check in result.checks)
    return {
        "ok": bool(
            completed >= result.runs > 0
            and gated * 4 >= completed
            and not escapes
            and not lost
            and raised == len(result.checks) > 0
        ),
        "runs": result.runs,
        "completed": completed,
        **{f"completed_{kind}": sum(one.completed for one in result.done if one.kind is kind) for kind in Kind},
        "short": sum(len(one.short) for one in result.done),
        "inconclusive": lost,
        "escapes": bad,
        "escape_rate_upper_95": upper_bound(min(bad, completed), completed) if completed else 1.0,
        "sandboxes": sum(one.sandboxes for one in result.done),
        "sandboxes_that_ended": sum(finding.oracle is Oracle.DEATH for finding in findings),
        "planted": len(result.checks),
        "planted_raised": raised,
        "system_calls": sum(sum(one.calls.values()) for one in result.done),
        "system_call_numbers": len(_sum(one.calls for one in result.done)),
        "tool_calls": sum(sum(one.tools.values()) for one in result.done),
        "policy_rules": len(_sum(one.rules for one in result.done)),
        "seconds": result.seconds,
        "runs_per_second": round(completed / result.seconds, 1) if result.seconds else 0.0,
        "seed": result.seed,
        "engine": result.engine,
    }


def details(result: Result) -> dict[str, Any]:
    """What was tried and how it was answered; what was raised."""
    calls = _sum(one.calls for one in result.done)
    answers = _sum(one.answers for one in result.done)
    return {
        "oracles": {f"{oracle.value}": _oracle(result, oracle) for oracle in Oracle},
        "planted": result.checks,
        "findings": [finding for one in result.done for finding in one.findings],
        "system_calls": {named(number): count for number, count in sorted(calls.items())},
        "answers": {_answer(number): count for number, count in answers.most_common()},
        "policy_rules": dict(_sum(one.rules for one in result.done).most_common()),
        "tools": dict(_sum(one.tools for one in result.done).most_common()),
        "minimal": [_spelled(one) for one in result.minimal],
        "faults": [fault for one in result.done for fault in one.faults],
        "short_runs": [run for one in result.done for run in one.short],
        "lost_runs": [run for one in result.done for run in one.lost],
        "batches": [{"number": one.number, "kind": one.kind, "seconds": one.seconds} for one in result.done],
    }


def named(number: int) -> str:
    """A system call by its name, or its number where it has none."""
    return _NAMES.get(number, str(number))


def _spelled(minimal: Minimal) -> dict[str, Any]:
    calls = [
        f"{named(call.number)}({', '.join(_argument(call, place) for place in range(len(call.arguments)))})"
        for call in minimal.sequence.calls
    ]
    return {"oracle": minimal.oracle.name, "runs": list(minimal.runs), "calls": calls}


def _argument(call: SystemCall, place: int) -> str:
    value = call.arguments[place]
    return f"result of call {value}" if call.earlier >> place & 1 else hex(value)


def _answer(number: int) -> str:
    return errno.errorcode.get(number, str(number)) if number else "a result"


def _oracle(result: Result, oracle: Oracle) -> dict[str, Any]:
    def count(findings: Iterable[Finding]) -> int:
        return sum(finding.oracle is oracle for finding in findings)

    return {
        "title": TITLES[oracle],
        "raised": sum(count(one.findings) for one in result.done),
        "raised_by_planted": sum(count(check.findings) for check in result.checks),
    }


def _sum(parts: Iterable[Mapping[Any, int]]) -> collections.Counter[Any]:
    total: collections.Counter[Any] = collections.Counter()
    for part in parts:
        total.update(part)
    return total


def lines(result: Result) -> list[str]:
    """For a terminal: findings first."""
    said = [
        f"{finding.oracle.name} in batch {finding.batch}, run {finding.run}: {finding.what}"
        for one in result.done
        for finding in one.findings
    ]
    said += [
        f"{one.oracle.name}: runs {one.runs}, the last up to its call {len(one.sequence.calls)}"
        for one in result.minimal
    ]
    said += [f"batch {done.number} failed: {fault}" for done in result.done for fault in done.faults]
    for check in result.checks:
        raised = ", ".join(oracle.name.lower() for oracle in check.wanted)
        said.append(f"planted: {check.name}: {'raised' if check.raised else 'NOT RAISED'} ({raised})")
    told = summary(result)
    kinds = ", ".join(f"{told['completed_' + kind]} {kind}" for kind in Kind)
    said.append(
        f"{told['completed']} of {told['runs']} runs completed ({kinds}), {told['short']} short, "
        f"{told['inconclusive']} inconclusive"
    )
    said.append(
        f"{told['system_calls']} system calls of {told['system_call_numbers']} numbers, {told['tool_calls']} "
        f"tool calls, {told['policy_rules']} rules of the policy"
    )
    said.append(
        f"{told['escapes']} escapes: at most {told['escape_rate_upper_95']:.4%} (one-sided 95 %); "
        f"{told['sandboxes_that_ended']} of {told['sandboxes']} sandboxes ended themselves"
    )
    said.append(f"{told['seconds']} s, {told['runs_per_second']} runs a second")
    return said
