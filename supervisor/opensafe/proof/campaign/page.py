"""A campaign's report as one HTML page that needs nothing else. Every text in it is escaped here, once."""

import html
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from . import figures
from .campaign import Result

_STYLE: Final = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em; color: #1a1a1a }
table { border-collapse: collapse; margin: 1em 0 } th, td { text-align: left; padding: .25em .75em }
th { border-bottom: 2px solid #888 } td { border-bottom: 1px solid #ddd; overflow-wrap: anywhere }
td.n { text-align: right }
.bad { background: #fde2e0 } .good { background: #dff3e1 }
@media (prefers-color-scheme: dark) { body { background: #161616; color: #e4e4e4 } td { border-color: #3a3a3a }
.bad { background: #5a2320 } .good { background: #1d4a24 } }
"""


def page(result: Result) -> str:
    """The whole document, UTF-8."""
    return "\n".join(_lines(result)) + "\n"


def _lines(result: Result) -> Iterator[str]:
    told, more = figures.summary(result), figures.details(result)
    verdict = "good" if told["ok"] else "bad"
    yield '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>Escape campaign</title>\n<style>{_STYLE}</style>\n<h1>Escape campaign</h1>"
    yield f'<p class="{verdict}">{told["completed"]} of {told["runs"]} runs, {told["escapes"]} escapes: at most'
    yield f"{told['escape_rate_upper_95']:.4%} with one-sided confidence of 95 %, for runs drawn like these.</p>"
    yield from _table(("Figure", ""), told.items())
    yield "<h2>Oracles</h2>"
    oracles = ((n, of["title"], of["raised"], of["raised_by_planted"]) for n, of in more["oracles"].items())
    yield from _table(("", "What must not be seen", "Raised", "Raised by what was planted"), oracles)
    yield "<h2>Planted breaches</h2>"
    planted = (
        (check.name, ", ".join(one.name for one in check.wanted), "raised" if check.raised else "NOT RAISED")
        for check in result.checks
    )
    yield from _table(("Planted", "Oracles", ""), planted)
    yield "<h2>Findings</h2>"
    found = ((one.oracle.name, one.batch, "" if one.run is None else one.run, one.what) for one in more["findings"])
    yield from _table(("Oracle", "Batch", "Run", "What"), found)
    for title, key in (
        ("Rules of the policy that were reached", "policy_rules"),
        ("Tools, and what became of their calls", "tools"),
        ("Answers of system calls", "answers"),
        ("System calls", "system_calls"),
    ):
        yield f"<h2>{title}</h2>"
        yield from _table(("", "Calls"), _sorted(more[key]))
    yield "</html>"


def _sorted(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


def _table(heads: Iterable[str], rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    yield "<table>\n<tr>" + "".join(f"<th>{html.escape(head)}" for head in heads)
    for row in rows:
        yield "<tr>" + "".join(_cell(cell) for cell in row)
    yield "</table>"


def _cell(value: Any) -> str:  # noqa: ANN401 - whatever has a text
    kind = ' class="n"' if isinstance(value, int | float) else ""
    return f"<td{kind}>{html.escape(str(value))}"
