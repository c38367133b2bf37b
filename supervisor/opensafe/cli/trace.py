"""`opensafe trace`: what a session's calls left in the trace, and in what two runs differ."""

import pathlib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opensafe.errors import InvalidArgument

from . import options

if TYPE_CHECKING:
    from opensafe.telemetry.reading import Source

group = typer.Typer(help="Traces of sessions: one as a tree, or two held against each other.", no_args_is_help=True)

File = Annotated[
    list[pathlib.Path] | None,
    typer.Option(
        "--file",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="A file of traces, with the older one beside it; may be repeated. Default: the daemon's.",
    ),
]
Jaeger = Annotated[
    str | None,
    typer.Option("--jaeger", metavar="URL", help="Read from a Jaeger's query API, such as http://localhost:16686."),
]


@group.command("show")
def show(
    trace: Annotated[str, typer.Argument(metavar="ID", help="The trace's id, 32 hexadecimal digits.")],
    state: options.State = options.STATE,
    file: File = None,
    jaeger: Jaeger = None,
    json: options.Json = False,
) -> int:
    """Print a trace as a tree, with each call's verdicts, waits and end."""
    from opensafe.telemetry.diff import calls_of

    from . import present, trace_text

    spans = _source(state, file, jaeger).trace(trace)
    if json:
        calls = calls_of(spans)
        summary = {"trace_id": trace.lower(), "spans": len(spans), "calls": len(calls)}
        _print_json("trace", summary, {"spans": spans, "calls": calls})
    else:
        for line in trace_text.tree_lines(spans):
            present.out(line)
    return 0


@group.command("diff")
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="A trace's id: what is expected.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another's: what is held against it.")],
    state: options.State = options.STATE,
    file: File = None,
    jaeger: Jaeger = None,
    html: Annotated[
        pathlib.Path | None, typer.Option("--html", metavar="FILE", help="Write the comparison as a page, too.")
    ] = None,
    json: options.Json = False,
) -> int:
    """Say in what two traces differ: structure, verdicts, rules, outcomes, exit codes. Ends with 1 where they do.

    Structure is compared as Jaeger does it. Durations are shown and make no difference.
    """
    from opensafe.telemetry.diff import compare

    from . import exits, present, trace_page, trace_text

    source = _source(state, file, jaeger)
    names = a.lower(), b.lower()
    found = compare(source.trace(a), source.trace(b))
    if html is not None:
        try:
            html.write_text(trace_page.page(found, names))
        except OSError as error:
            raise InvalidArgument(f"the page can't be written: {error.strerror}", value=html) from error
    if json:
        _print_json("trace-diff", trace_text.summary(found, names), trace_text.details(found))
    else:
        for line in trace_text.diff_lines(found, names):
            present.out(line)
    return exits.Exit.GOAL_MISSED if found.moved or found.changed else exits.Exit.OK


def _source(state: pathlib.Path, files: list[pathlib.Path] | None, jaeger: str | None) -> "Source":
    from opensafe.telemetry.reading import Files, Jaeger

    if jaeger is not None:
        return Jaeger(jaeger)
    return Files(files or [state / "front" / "traces.jsonl"])


def _print_json(subject: str, summary: dict[str, Any], details: dict[str, Any]) -> None:
    """As every report, in ASCII: names and attributes are others' text, and nothing in it may steer a terminal."""
    import json

    from . import present
    from .report import report

    present.raw(json.dumps(report(subject, summary, details), indent=2))
