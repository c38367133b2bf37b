"""The rules of the suite asked about runs that prove nothing, as `python -m opensafe.proof.escape.control.judged`.

Standard output: a line for each of them that would be reported as green. There must be none.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from opensafe.proof.escape import boundaries
from opensafe.proof.escape.probe import Probe, Run, judge
from opensafe.proof.escape.report import summary

_HELD: Final = Run(began=True, finished=True, layer="a layer")
_OUT: Final = Run(began=True, finished=True, found="it got out")
#: What is wrong, the probe's runs, and its control's.
_CASES: Final[Sequence[tuple[str, tuple[Run, ...], Run]]] = (
    ("its control's weakness is on", (_OUT,), _OUT),
    ("a later layer is open", (_HELD, _OUT), _OUT),
    ("its control held", (_HELD,), _HELD),
    ("its control did not run", (_HELD,), Run(began=False, finished=False, fault="no")),
    ("it did not begin", (Run(began=False, finished=True),), _OUT),
    ("it did not end", (Run(began=True, finished=False),), _OUT),
    ("it had a fault", (Run(began=True, finished=True, fault="no"),), _OUT),
    ("it was not run", (), _OUT),
)


def _green(probe: Probe) -> Iterator[str]:
    for what, runs, control in _CASES:
        if summary(1, (judge(probe, runs, control),))["ok"] and not (probe.limit and any(run.found for run in runs)):
            yield f"{probe.id} is green though {what}"
    good = judge(probe, (_HELD,), _OUT)
    if summary(2, (good,))["ok"]:
        yield f"{probe.id} alone is green where two were planned"
    if not summary(1, (good,))["ok"]:
        yield f"{probe.id} is not green where all is well"


def main() -> None:
    """Ask about every probe of every boundary, and about none."""
    for boundary in boundaries.known():
        for probe in boundaries.probes(boundary):
            for line in _green(probe):
                print(line)  # noqa: T201 - the answer
    if summary(0, ())["ok"]:
        print("a suite without probes is green")  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
