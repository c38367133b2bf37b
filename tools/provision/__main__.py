"""`python -m provision TARGET`: executes the steps that the target needs and that are not done yet.

The plan is a list of operations. `--plan` prints it; executing shows each step's number and time; a failure ends
the run with its reason, the remedy and the command to replay. Finished steps are kept, so the same command
resumes.
"""

import argparse
import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from . import engines
from .apt import Accounts, AptPackages
from .artifacts import Bundle, Keys, Native
from .console import ConsoleAssets
from .image import RunnerImage
from .operation import Operation
from .promtool import Promtool
from .python import Peers, Uv, Venv
from .runner import Runner, StepError
from .site import Site

PYTHON = ("apt", "uv", "venv")
SETUP = ("apt", "account", "uv", "venv", "native", "console", "opa", "runsc", "image", "keys", "bundle")
TARGETS: dict[str, tuple[str, ...]] = {
    "setup": SETUP,
    "test": (*SETUP, "dev", "promtool", "jaeger", "browser"),
    "python": PYTHON,
    "native": ("apt", "native"),
    "image": (*PYTHON, "image", "dev"),
    "peers": ("apt", "uv", "peers"),
    "bundle": (*PYTHON, "opa", "keys", "bundle"),
}


def operations(site: Site, target: str) -> list[Operation]:
    """The steps of a target, each after what it needs."""
    known: list[Operation] = [
        AptPackages(site),
        Accounts(site),
        Uv(site),
        Venv(site),
        Peers(site),
        Native(site),
        ConsoleAssets(site),
        engines.opa(site),
        engines.runsc(site),
        RunnerImage(site),
        Keys(site),
        Bundle(site),
        RunnerImage(site, "dev", "dev"),
        Promtool(site),
        engines.jaeger(site),
        AptPackages(site, "browser"),
    ]
    return [step for step in known if step.name in TARGETS[target]]


def say(text: str = "") -> None:
    """Print one line now, also into a pipe."""
    print(text, flush=True)


@contextlib.contextmanager
def exclusive(site: Site) -> Iterator[None]:
    """Hold the build directory: two set-ups at once would write the same files."""
    site.build.mkdir(parents=True, exist_ok=True)
    with (site.build / ".setup.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("setup: another set-up of this checkout is running; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def show_plan(steps: Sequence[Operation]) -> None:
    """Print every step and whether it is done."""
    for number, step in enumerate(steps, 1):
        state = "done" if step.is_done() else "to do"
        say(f"[{number}/{len(steps)}] {step.name:<8} {state:<6} {step.describe()}")


def show_failure(error: StepError, log: Path) -> None:
    """Print what failed, why, and what to do about it."""
    say(f"      failed: {error.why}")
    for line in error.output.splitlines():
        say(f"      | {line}")
    say(f"      to do:  {error.remedy}")
    if error.replay:
        say(f"      replay: {error.replay}")
    if log.exists():
        say(f"      log:    {log}")
    say("      The same command resumes here; finished steps are kept.")


def execute(site: Site, steps: Sequence[Operation]) -> int:
    """Execute what is not done, in order. Returns the exit status."""
    began = time.monotonic()
    executed = 0
    for number, step in enumerate(steps, 1):
        if step.is_done():
            continue
        executed += 1
        label = f"[{number}/{len(steps)}] {step.name}"
        say(f"{label}: {step.describe()}")
        started = time.monotonic()
        run = Runner(log=site.logs / f"{step.name}.log", say=lambda text: say(f"      {text}"))
        try:
            step.execute(run)
        except StepError as error:
            show_failure(error, run.log)
            return 1
        except OSError as error:
            remedy = "check the disk's free space and who may write there"
            show_failure(StepError(f"{error.strerror}: {error.filename}", remedy), run.log)
            return 1
        say(f"{label}: done in {time.monotonic() - started:.1f} s")
    if executed:
        say(f"setup: {executed} of {len(steps)} steps executed in {time.monotonic() - began:.1f} s")
    else:
        say(f"setup: all {len(steps)} steps were done already")
    return 0


def main() -> int:
    """Parse the command line and run. Exit status: 0 all done, 1 a step failed, 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="tools/setup.sh", description="Set up a checkout of OpenSafe.")
    parser.add_argument("target", nargs="?", default="setup", choices=TARGETS)
    parser.add_argument("--plan", action="store_true", help="print the steps without executing them")
    arguments = parser.parse_args()

    os.umask(0o022)  # the service user reads what is made here
    site = Site.from_environment()
    steps = operations(site, arguments.target)
    if arguments.plan:
        show_plan(steps)
        return 0
    try:
        with exclusive(site):
            return execute(site, steps)
    except KeyboardInterrupt:
        say("setup: interrupted; the same command resumes")
        return 130


if __name__ == "__main__":
    sys.exit(main())
