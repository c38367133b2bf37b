"""What the benches share on the command line: their tables, and the host that they ran on."""

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from opensafe.bench.timing import Times

#: What is thrown away first, as a share of the rounds that count.
WARM_UP: Final = 0.1

Policies = Annotated[
    pathlib.Path | None,
    typer.Option("--policies", metavar="DIR", help="The bundle's Rego sources. Default: this checkout's."),
]


def pair(times: "Times") -> str:
    """Median/95th percentile."""
    return f"{times.p50_ms:.1f}/{times.p95_ms:.1f}"


def three(times: "Times") -> str:
    """Median/95th/99th percentile of something short."""
    return f"{times.p50_ms:.3f}/{times.p95_ms:.3f}/{times.p99_ms:.3f}"


def verdict(ok: bool) -> str:
    """In words."""
    return "met" if ok else "MISSED"


def table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> "Table":
    """The first column to the left, all others to the right."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False)
    for at, column in enumerate(columns):
        made.add_column(column, justify="left" if at == 0 else "right", no_wrap=True)
    for row in rows:
        made.add_row(*row)
    return made


def show(made: "Table") -> None:
    """Print a table."""
    from rich.console import Console

    Console(highlight=False).print(made)


def host() -> dict[str, str | float]:
    """What a figure depends on besides the versions; the load is that before the run."""
    import os

    models = [line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    model = models[0].partition(": ")[2] if models else "unknown"
    return {"cpu_model": model, "load_average_1m": round(os.getloadavg()[0], 2)}
