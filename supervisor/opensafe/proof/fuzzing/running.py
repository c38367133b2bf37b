"""One bounded run of a target in a child of its own, and what libFuzzer says of it.

A run that found nothing is a success only if it tried something: it must have run, found inputs that reach what none
before them did, and reached the target's floor. Everything else is vacuous, which is no success.
"""

import contextlib
import json
import os
import pathlib
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from opensafe.errors import HostUnsuitable
from opensafe.proof import mutants

from .catalogue import Located

_CHILD: Final = pathlib.Path(__file__).with_name("child.py")
#: Of one input, and of the child beside its own bound: its imports, its last input, a finding written.
_INPUT_S: Final = 20
_GRACE_S: Final = 90
_MINIMISE_S: Final = 15
_MEMORY_MIB: Final = 3072
#: Targets make and remove many small files, for which a disk has to be asked.
_ROOMS: Final = "/dev/shm"  # noqa: S108 - where there is one; each run has a directory of its own
#: Of libFuzzer's words.
_TAIL: Final = 1 << 16
_STATUS: Final = re.compile(r"^#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+) corp: (\d+)", re.MULTILINE)
_STATISTIC: Final = re.compile(r"^stat::(\w+):\s+(\d+)$", re.MULTILINE)
_MISSING: Final = "atheris is not installed"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """An input for which an invariant does not hold.

    kind: exception and invariant, or `timeout`, `memory`, `died`. input: minimised where that could be done.
    """

    kind: str
    message: str
    trace: str = ""
    input: bytes = b""

    @property
    def unsaid(self) -> bool:
        """The child was ended, or ended itself, before anything could say what does not hold."""
        return self.kind in ("timeout", "memory", "died")


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """planned: inputs. executed: inputs that ran. coverage: edges reached; floor: that must be. features: as libFuzzer
    counts them. new_units: inputs that reached what none before them did. vacuous: why it proves nothing.
    """

    target: str
    seed: int
    planned: int
    executed: int
    seconds: float
    coverage: int
    floor: int
    features: int
    new_units: int
    vacuous: str = ""
    finding: Finding | None = None

    @property
    def ok(self) -> bool:
        """Nothing was found, by a run that could have found something."""
        return not self.vacuous and self.finding is None


def run(
    located: Located,
    *,
    runs: int,
    seconds: int,
    seed: int = 0,
    source: pathlib.Path | None = None,
    corpus: bool = True,
    keep: pathlib.Path | None = None,
) -> Run:
    """Up to `runs` inputs, for up to `seconds`. seed: of the mutations; 0 takes one. source: where the package is taken
    from, if not from here (mutants.py). corpus: begin with the kept inputs too, not with the seeds alone. keep: a
    directory for inputs that reach something new.

    Raises HostUnsuitable where atheris is not installed.
    """
    seed = seed or secrets.randbelow((1 << 31) - 1) + 1
    with _room() as room:
        options = _options(located, room, runs=runs, seconds=seconds, seed=seed, corpus=corpus, keep=keep)
        began = time.monotonic()
        status, said, report = _child(
            {"do": "fuzz", "exclude": _unguided(located, source), "options": options},
            located, room, source=source, seconds=seconds + _GRACE_S,
        )  # fmt: skip
        took = time.monotonic() - began
        _see_that_it_started(located, report, said)
        figures = _figures(said)
        finding = _finding(status, said, report, room / "found")
        if finding is not None and finding.input:
            finding = _minimised(located, finding, room, source)
    return Run(
        target=located.target.id,
        seed=seed,
        planned=runs,
        executed=figures["executed"],
        seconds=round(took, 2),
        coverage=figures["coverage"],
        floor=located.target.floor,
        features=figures["features"],
        new_units=figures["new_units"],
        vacuous="" if finding is not None else _vacuous(figures, located.target.floor),
        finding=finding,
    )


def replay(located: Located, inputs: Sequence[bytes], *, source: pathlib.Path | None = None) -> Finding | None:
    """What these inputs break, in a child, with nothing in the way of the code. None where all is well."""
    with _room() as room:
        files = [room / f"{number:06}" for number in range(len(inputs))]
        for file, data in zip(files, inputs, strict=True):
            file.write_bytes(data)
        order = {"do": "replay", "inputs": [str(file) for file in files]}
        status, said, report = _child(order, located, room, source=source, seconds=_GRACE_S + len(inputs))
        if "replayed" in report:
            return None
        broken = pathlib.Path(report["input"]).read_bytes() if "input" in report else b""
        found = report.get("finding") or {"kind": "died", "message": f"status {status}: {said[-500:]}"}
        return Finding(**found, input=broken)


@contextlib.contextmanager
def _room() -> Iterator[pathlib.Path]:
    """A directory for one run, gone afterwards."""
    where = _ROOMS if os.access(_ROOMS, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="opensafe-fuzz-", dir=where) as made:
        yield pathlib.Path(made)


def _options(
    located: Located, room: pathlib.Path, *, runs: int, seconds: int, seed: int, corpus: bool, keep: pathlib.Path | None
) -> list[str]:
    new, seeds, found = keep or room / "new", room / "seeds", room / "found"
    for directory in (new, seeds, found):
        directory.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(located.target.seeds()):
        (seeds / f"{number:04}").write_bytes(data)
    options = [
        f"-runs={runs}", f"-max_total_time={seconds}", f"-seed={seed}", f"-max_len={located.target.longest}",
        f"-timeout={_INPUT_S}", f"-rss_limit_mb={_MEMORY_MIB}", f"-artifact_prefix={found}/", "-print_final_stats=1",
        "-detect_leaks=0", "-reload=0",
    ]  # fmt: skip
    if located.target.words:
        words = room / "words"
        words.write_text("".join(f'"{_escaped(word)}"\n' for word in located.target.words))
        options.append(f"-dict={words}")
    kept = [str(located.corpus)] if corpus and located.corpus.is_dir() else []
    return [*options, str(new), str(seeds), *kept]


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02X}" for byte in word)


def _unguided(located: Located, source: pathlib.Path | None) -> list[str]:
    """Every module of ours whose coverage is not asked for."""
    package = source / mutants.PACKAGE.name if source is not None else mutants.PACKAGE
    names = []
    for file in package.rglob("*.py"):
        parts = (package.name, *file.relative_to(package).with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if not any(name == wanted or name.startswith(f"{wanted}.") for wanted in located.target.modules):
            names.append(name)
    return names


def _child(
    order: Mapping[str, object], located: Located, room: pathlib.Path, *, source: pathlib.Path | None, seconds: float
) -> tuple[int, str, dict[str, Any]]:
    """Its exit status, the end of what it said, and its report; one that does not end in time is killed."""
    report, words = room / "report", room / "said"
    report.unlink(missing_ok=True)
    asked = {**order, "target": str(located.file), "report": str(report)}
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    if source is not None:
        environment["PYTHONPATH"] = str(source)
    with words.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-P", str(_CHILD), json.dumps(asked)],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=room, env=environment, start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(seconds)
        except BaseException as ended:
            os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
            if not isinstance(ended, subprocess.TimeoutExpired):
                raise
    with words.open("rb") as said:
        said.seek(max(0, words.stat().st_size - _TAIL))
        text = said.read().decode(errors="replace")
    return status, text, json.loads(report.read_bytes()) if report.exists() else {}


def _see_that_it_started(located: Located, report: Mapping[str, object], said: str) -> None:
    if report:
        return
    if "No module named 'atheris'" in said:
        raise HostUnsuitable(_MISSING, remedy="Install opensafe[fuzz].")
    raise HostUnsuitable(f"target {located.target.id} could not be started", value=said[-_TAIL // 16 :].strip())


def _figures(said: str) -> dict[str, int]:
    statistics = {name: int(value) for name, value in _STATISTIC.findall(said)}
    states = _STATUS.findall(said)
    last = [int(number) for number in states[-1]] if states else [0, 0, 0, 0]
    return {
        "executed": statistics.get("number_of_executed_units", last[0]),
        "coverage": last[1],
        "features": last[2],
        "new_units": statistics.get("new_units_added", 0),
    }


def _vacuous(figures: Mapping[str, int], floor: int) -> str:
    if not figures["executed"]:
        return "no input was run"
    if figures["coverage"] < floor:
        return f"reached {figures['coverage']} edges of at least {floor}"
    if not figures["new_units"]:
        return "no input reached what the seeds had not reached"
    return ""


def _finding(status: int, said: str, report: Mapping[str, Any], found: pathlib.Path) -> Finding | None:
    inputs = sorted(found.iterdir())
    data = inputs[0].read_bytes() if inputs else b""
    if "finding" in report:
        return Finding(**report["finding"], input=data)
    if status == 0:
        return None
    kinds = {"timeout": "timeout", "oom": "memory"}
    kind = kinds.get(inputs[0].name.partition("-")[0], "died") if inputs else "died"
    return Finding(kind=kind, message=f"the child ended with {status}", trace=said[-_TAIL // 16 :], input=data)


def _minimised(located: Located, finding: Finding, room: pathlib.Path, source: pathlib.Path | None) -> Finding:
    """The same with a smaller input; as it is where the input alone does not show it, or ends the child."""
    if finding.unsaid:
        return finding
    file = room / "input"
    file.write_bytes(finding.input)
    order = {"do": "minimise", "inputs": [str(file)], "seconds": _MINIMISE_S}
    _, _, report = _child(order, located, room, source=source, seconds=_MINIMISE_S + _GRACE_S)
    if not report.get("finding") or report["finding"]["kind"] != finding.kind:
        return finding
    return Finding(**report["finding"], input=file.read_bytes())
