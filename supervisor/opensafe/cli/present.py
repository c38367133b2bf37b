"""Text for people: plain lines that read the same in a terminal, a pipe and a log. Verdicts go to stderr.

Reasons, values and arguments come from an agent that may be hostile to the person who reads them, so nothing that
steers a terminal or reorders text is printed as such.

How far something has come is shown on a terminal. Who reads stderr instead asks for lines by OPENSAFE_PROGRESS=lines.
"""

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opensafe.model.decision import Action, RuleHit
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.printable import harmless

if TYPE_CHECKING:  # the client would bring gRPC into every command
    from opensafe.client import Verdict


def out(text: str) -> None:
    """One line of the answer on stdout."""
    print(harmless(text))  # noqa: T201 - what a command line is for


def raw(text: str) -> None:
    """A whole JSON document on stdout."""
    print(text)  # noqa: T201 - what a command line is for


def say(text: str) -> None:
    """One message on stderr."""
    note(f"opensafe: {text}")


def note(text: str) -> None:
    """A further line of a message on stderr."""
    print(harmless(text), file=sys.stderr)  # noqa: T201 - what a command line is for


def rule_lines(rules: Sequence[RuleHit]) -> Iterator[str]:
    """Each rule: its id, why it fired, and the smallest change that would be allowed."""
    for rule in rules:
        yield f"  {rule.id} ({rule.severity}): {rule.reason}"
        if rule.value and rule.value not in rule.reason:
            yield f"    value:  {rule.value}"
        if rule.remedy:
            yield f"    remedy: {rule.remedy}"


def verdict_lines(verdict: "Verdict", *, then: str = "") -> Iterator[str]:
    """A verdict that is no yes: the rules, whom to ask, what to do `then`, and the ids that find it again."""
    yield from rule_lines(verdict.deciding() or verdict.rules)
    if verdict.action is Action.BLOCK:
        yield "  No reviewer can allow a blocked call: change it as the remedy says, or have the policy changed."
    else:
        yield f"  To ask: a reviewer runs `opensafe review show {verdict.review_id}`, then `approve` or `reject`."
    if then:
        yield f"  {then}"
    yield f"  decision {verdict.decision_id}, bundle {verdict.bundle_revision}, trace {verdict.trace_id}"


def outcome_text(outcome: Outcome) -> str:
    """An outcome in words."""
    match outcome.kind:
        case OutcomeKind.EXITED:
            text = f"exited with {outcome.exit_code}"
        case OutcomeKind.SIGNALLED:
            text = f"ended by signal {outcome.signal}"
        case kind:
            text = kind.value.replace("_", " ")
    return f"{text}: {outcome.detail}" if outcome.detail else text


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows under their headings, columns as wide as their widest cell."""
    widths = [max(len(row[at]) for row in (columns, *rows)) for at in range(len(columns))]
    for row in (columns, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Show `text` on stderr while something takes its time; nothing where stderr is no terminal."""
    with steps() as tell:
        tell(text)
        yield


@contextmanager
def counting(total: int, what: str) -> Iterator[Callable[[str], None]]:
    """Show on stderr how many of `total` have ended; call what it yields with the name of each that does."""
    numbers = itertools.count(1)
    with steps() as tell:
        tell(f"0 of {total} {what}")
        yield lambda name: tell(f"{next(numbers)} of {total} {what} ({name})")


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """Like `progress`, with a text that changes: call what is yielded with each step."""
    if not sys.stderr.isatty():
        yield _line
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield status.update


def _line(text: str) -> None:
    if os.environ.get("OPENSAFE_PROGRESS") == "lines":
        note(text)
