"""opa and runsc, and for the tests a Jaeger, under the prefix: from the first source that has one new enough.

In this order: what already stands under the prefix, one on PATH (copied, so that an upgrade of the host doesn't
change what was checked), an official release by checksum, a build of the pinned module. The build needs no trust
in the module proxy: `go/NAME/go.sum` holds the hash of every module that goes into it.
"""

import platform
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .download import UnreachableError, download
from .operation import Stamp, digest
from .runner import Runner, StepError
from .site import Site
from .toolchain import Toolchain, ask_version, go_environment, needed_by, parse_version


def opa_objection(output: str, pin: dict[str, Any]) -> str | None:
    """Why the opa that prints this for `opa version` is not taken; None where it is."""
    return _outside(re.search(r"^Version: (\S+)", output, re.MULTILINE), pin)


def jaeger_objection(output: str, pin: dict[str, Any]) -> str | None:
    """Why the Jaeger that prints this for `jaeger version` is not taken; None where it is."""
    return _outside(re.search(r'"gitVersion":"(v[^"]+)"', output), pin)


def _outside(found: re.Match[str] | None, pin: dict[str, Any]) -> str | None:
    version = parse_version(found[1]) if found else None
    if version is None:
        return "it prints no version"
    low, high = parse_version(pin["minimum"]), parse_version(pin["below"])
    if low is None or high is None or not low <= version < high:
        return f"it is {'.'.join(map(str, version))}, needed is {pin['minimum']} or newer, below {pin['below']}"
    return None


def runsc_objection(output: str, pin: dict[str, Any]) -> str | None:
    """Why the runsc that prints this for `runsc --version` is not taken; None where it is.

    A release (release-20260817.0), a Go pseudo-version (v0.0.0-20260905035102-…) and Debian's package
    (0.0~20221219…) all carry the date of their source, which is what is compared. A build without a date is
    refused.
    """
    found = re.search(r"^runsc version (?:release-|v?0\.0\.0-|0\.0~)(\d{4})(\d\d)(\d\d)", output, re.MULTILINE)
    if found is None:
        first = output.splitlines()[0] if output else "nothing"
        return f"its age can't be told from {first!r}"
    built = "-".join(found.groups())
    if built < pin["minimum"]:
        return f"it is of {built}, in range of CVE-2026-96812; needed is {pin['minimum']} or newer"
    return None


@dataclass(frozen=True, slots=True)
class Engine:
    """One program that is not Python: its name is the file's under the prefix and the table's in pins.toml."""

    site: Site
    name: str
    version_argument: str
    objection: Callable[[str, dict[str, Any]], str | None]

    @property
    def path(self) -> Path:
        """Where the program ends up."""
        return self.site.prefix / "bin" / self.name

    @property
    def _pin(self) -> dict[str, Any]:
        pin: dict[str, Any] = self.site.pins[self.name]
        return pin

    @property
    def _module(self) -> Path:
        return Path(__file__).with_name("go") / self.name

    @property
    def _stamp(self) -> Stamp:
        return Stamp(self.site.stamps / self.name)

    def _key(self) -> str:
        """The pin, and which file was checked against it: the version is asked once per file, not per run."""
        status = self.path.stat()
        return digest(repr(self._pin), f"{self.path} {status.st_size} {status.st_mtime_ns}")

    def describe(self) -> str:
        """Where the program would come from."""
        return (
            f"put {self.name} >= {self._pin['minimum']} at {self.path}: "
            "from PATH, else an official release by checksum, else built from the pinned module"
        )

    def is_done(self) -> bool:
        """Whether the file that was checked last time is still the one there."""
        return self.path.exists() and self._stamp.holds(self._key())

    def refusal(self, program: Path | str) -> str | None:
        """Why this file is not taken; None where it runs and is new enough."""
        try:
            return self.objection(ask_version(program, self.version_argument), self._pin)
        except StepError as error:
            return error.why

    def execute(self, run: Runner) -> None:
        """Try the sources in order; the last one's failure is the step's."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self._stands(run):
            with tempfile.TemporaryDirectory(prefix=f".{self.name}-", dir=self.path.parent) as scratch:
                made = self._from_host(Path(scratch), run)
                made = made or self._from_release(Path(scratch), run)
                made = made or self._from_module(Path(scratch), run)
                made.chmod(0o755)
                why = self.refusal(made)
                if why:
                    raise StepError(f"{self.name} was made, but {why}", "report this: the pin is wrong")
                made.replace(self.path)
        self._stamp.set(self._key())

    def _stands(self, run: Runner) -> bool:
        if not self.path.exists():
            return False
        why = self.refusal(self.path)
        run.say(f"{self.path} " + (f"is replaced: {why}" if why else "is new enough"))
        return why is None

    def _from_host(self, scratch: Path, run: Runner) -> Path | None:
        found = shutil.which(self.name)
        if found is None or Path(found).resolve() == self.path.resolve():
            return None
        why = self.refusal(found)
        if why:
            run.say(f"{found} is left alone: {why}")
            return None
        run.say(f"copying {found}")
        made = scratch / self.name
        shutil.copyfile(found, made)
        return made

    def _from_release(self, scratch: Path, run: Runner) -> Path | None:
        machine = platform.machine()
        releases = [entry for entry in self._pin["release"] if entry["arch"] == machine]
        if not releases:
            run.say(f"no checksum of an official release for {machine} is pinned: not downloading one")
            return None
        try:
            return download(releases[0]["url"], releases[0]["sha256"], scratch / self.name)
        except UnreachableError as error:
            run.say(f"the official release is not reachable: {error}")
            return None

    def _from_module(self, scratch: Path, run: Runner) -> Path:
        go = Toolchain(self.site).provide(needed_by(self._module), run)
        version = self._pinned_version()
        run.say(f"building {self._pin['package']} {version}")
        made = scratch / self.name
        run(
            [
                go,
                "build",
                "-trimpath",
                "-buildvcs=false",
                "-ldflags",
                self._pin["ldflags"].format(version=version),
                "-o",
                made,
                self._pin["package"],
            ],
            cwd=self._module,
            env=go_environment(self.site, scratch),
            remedy=(
                "check that the Go module proxy is reachable and that the disk has 3 GB free, or put "
                f"{self.name} >= {self._pin['minimum']} on PATH yourself; then run the same command again"
            ),
        )
        return made

    def _pinned_version(self) -> str:
        text = (self._module / "go.mod").read_text()
        found = re.search(rf"^(?:require |\t){re.escape(self._pin['module'])} (\S+)", text, re.MULTILINE)
        if found is None:
            raise StepError(f"{self._module}/go.mod requires no {self._pin['module']}", "restore the file")
        return found[1]


def opa(site: Site) -> Engine:
    """The policy compiler."""
    return Engine(site, "opa", "version", opa_objection)


def runsc(site: Site) -> Engine:
    """The gVisor runtime."""
    return Engine(site, "runsc", "--version", runsc_objection)


def jaeger(site: Site) -> Engine:
    """A collector with a query API, which the tests send traces to and read them back from."""
    return Engine(site, "jaeger", "version", jaeger_objection)
