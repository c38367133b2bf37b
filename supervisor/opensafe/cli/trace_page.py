"""The comparison of two traces as one HTML page that needs nothing else: no script, no other file, nothing fetched.

Every text in it may be an agent's, so each is escaped here, once, and the page's own policy forbids what a mistake
could let through.
"""

import html
from collections.abc import Iterator
from typing import Final

from opensafe.model.printable import harmless
from opensafe.telemetry.diff import CallPair, Diff

from . import trace_text

_STYLE: Final = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em; color: #1a1a1a }
table { border-collapse: collapse; width: 100%; margin: 1em 0 } th, td { text-align: left; padding: .25em .75em }
th { border-bottom: 2px solid #888 } td { border-bottom: 1px solid #ddd; vertical-align: top }
td.n { text-align: right; font-variant-numeric: tabular-nums } code { overflow-wrap: anywhere }
.only-in-a, .fewer { background: #fde2e0 } .only-in-b, .more { background: #dff3e1 }
@media (prefers-color-scheme: dark) { body { background: #161616; color: #e4e4e4 } td { border-color: #3a3a3a }
.only-in-a, .fewer { background: #5a2320 } .only-in-b, .more { background: #1d4a24 } }
"""


def page(diff: Diff, names: tuple[str, str]) -> str:
    """The whole document, UTF-8."""
    return "\n".join(_lines(diff, names)) + "\n"


def _lines(diff: Diff, names: tuple[str, str]) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>Traces compared</title>\n<style>{_STYLE}</style>\n<h1>Traces compared</h1>\n<table>"
    for side, name, revisions in zip("AB", names, diff.revisions, strict=True):
        yield f"<tr><th>{side}<td><code>{_text(name)}</code><td>bundle {_text(', '.join(revisions) or 'none')}"
    yield "</table>"
    figures = trace_text.summary(diff, names)
    yield f"<p>{figures['calls_changed']} of {figures['calls']} calls differ, {figures['verdicts_changed']} by their"
    yield f"verdict. The structure differs in {figures['places_changed']} places.</p>"
    yield "<h2>Calls that differ</h2>\n<table>\n<tr><th>Call<th>Differs by<th>A<th>B"
    yield from map(_pair, diff.changed)
    yield "</table>\n<h2>Structure</h2>\n<table>\n<tr><th>Place<th>Service<th>A<th>B<th>Time in A<th>Time in B"
    for place in trace_text.details(diff)["places"]:
        kind = place["kind"].lower().replace(" ", "-")
        indent = f"padding-left: {min(place['depth'], 32)}em"
        yield f'<tr class="{kind}"><td style="{indent}">{_text(place["operation"])}<td>{_text(place["service"])}'
        yield f'<td class="n">{place["a"]}<td class="n">{place["b"]}'
        yield f'<td class="n">{trace_text.duration(place["a_ns"])}<td class="n">{trace_text.duration(place["b_ns"])}'
    yield "</table>\n</html>"


def _pair(pair: CallPair) -> str:
    sides = "".join(f"<td>{_text(trace_text.call_text(call)) if call else ''}" for call in (pair.a, pair.b))
    return f"<tr><td>{_text(trace_text.title(pair))}<td>{', '.join(pair.changes)}{sides}"


def _text(text: str) -> str:
    return html.escape(harmless(text))
