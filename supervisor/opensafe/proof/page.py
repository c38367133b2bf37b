"""Reports as one HTML page: no script, nothing fetched, light and dark. Everything that is put in is escaped here.

What guests and daemons said stands in such pages, so a cell is text, never markup, and the page's own policy forbids
what a mistake could let through.
"""

import html
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from opensafe.model.printable import harmless

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #cf222e; --odd: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --good: #3fb950; --bad: #ff7b72; --odd: #d29922; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 2rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
td { overflow-wrap: anywhere; }
th { position: sticky; top: 0; background: Canvas; }
td.number { text-align: right; }
td.good, td.bad, td.odd { font-weight: 600; white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); } .odd { color: var(--odd); }
code { font: .92em ui-monospace, monospace; }
"""
_POLICY: Final = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
)
_SHOWN_MAX: Final = 600


class Cell(msgspec.Struct, frozen=True):
    """A cell with a tone: good, bad, odd or number; "" for none."""

    text: str
    tone: str = ""


class Table(msgspec.Struct, frozen=True):
    """A heading, the columns' names and the rows."""

    heading: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[str | Cell]]


def page(title: str, lead: Iterable[str | Cell], tables: Iterable[Table]) -> str:
    """The whole document. lead: one line each, before the tables."""
    said = "".join(f'<p class="{line.tone}">{text(line.text)}</p>' for line in map(_cell, lead))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{_POLICY}<title>{text(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><main><h1>{text(title)}</h1>{said}{''.join(map(_table, tables))}</main></body></html>\n"
    )


def text(value: str) -> str:
    """As HTML that shows exactly these characters; what is too long is cut, with a note."""
    more = f" […{len(value) - _SHOWN_MAX} more]" if len(value) > _SHOWN_MAX else ""
    return html.escape(harmless(value[:_SHOWN_MAX]) + more)


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{text(column)}</th>' for column in table.columns)
    rows = "".join(f"<tr>{''.join(map(_td, map(_cell, row)))}</tr>" for row in table.rows)
    return f"<h2>{text(table.heading)}</h2><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _td(cell: Cell) -> str:
    tone = f' class="{cell.tone}"' if cell.tone else ""
    return f"<td{tone}>{text(cell.text)}</td>"


def _cell(value: str | Cell) -> Cell:
    return value if isinstance(value, Cell) else Cell(value)
