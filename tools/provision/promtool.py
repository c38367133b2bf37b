"""promtool, which checks and tests the alerts: out of Debian's package `prometheus`, without installing that one.

The package would start a server on the host that nobody asked for: it is fetched as apt fetches it, by the signatures
of the archive, and only the program is taken out.
"""

import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .apt import APT_GET, ENVIRONMENT, UNREACHABLE, update_lists
from .operation import Stamp, digest
from .runner import Runner, StepError
from .site import Site
from .toolchain import ask_version, parse_version

_IN_PACKAGE = "usr/bin/promtool"


@dataclass(frozen=True, slots=True)
class Promtool:
    """`build/bin/promtool`: the host's, else Debian's."""

    site: Site
    name: str = "promtool"

    @property
    def path(self) -> Path:
        """The program."""
        return self.site.build / "bin" / "promtool"

    @property
    def _minimum(self) -> str:
        return str(self.site.pins["promtool"]["minimum"])

    @property
    def _package(self) -> str:
        return str(self.site.pins["promtool"]["package"])

    @property
    def _stamp(self) -> Stamp:
        return Stamp(self.site.stamps / self.name)

    def describe(self) -> str:
        """Where the program would come from."""
        return (
            f"put promtool >= {self._minimum} at {self.path}: from PATH, else out of Debian's package {self._package}"
        )

    def is_done(self) -> bool:
        """Whether a program that was checked against today's pin is there."""
        return self.path.exists() and self._stamp.holds(digest(repr(self.site.pins["promtool"])))

    def execute(self, run: Runner) -> None:
        """Take the host's where it is new enough, else the package's."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        host = shutil.which("promtool")
        with tempfile.TemporaryDirectory(prefix=".promtool-", dir=self.path.parent) as scratch:
            made = Path(scratch) / "promtool"
            if host is not None and self._objection(host) is None:
                shutil.copyfile(host, made)
            else:
                self._unpack(Path(scratch), run).replace(made)
            made.chmod(0o755)
            why = self._objection(made)
            if why is not None:
                raise StepError(why, f"put promtool >= {self._minimum} on PATH")
            made.replace(self.path)
        self._stamp.set(digest(repr(self.site.pins["promtool"])))

    def _unpack(self, scratch: Path, run: Runner) -> Path:
        if shutil.which("apt-get") is None:
            raise StepError("this host has no apt-get", f"put promtool >= {self._minimum} on PATH")
        update_lists(run)
        # As root apt would hand the download to a user of its own, who may not write here.
        run(
            [*APT_GET, "-o", "APT::Sandbox::User=root", "download", self._package],
            cwd=scratch,
            env=ENVIRONMENT,
            remedy=UNREACHABLE,
        )
        for package in scratch.glob("*.deb"):
            run(
                ["dpkg-deb", "--extract", package, scratch], remedy="the package is damaged: run the same command again"
            )
        return scratch / _IN_PACKAGE

    def _objection(self, program: Path | str) -> str | None:
        """Why this file is not taken; None where it runs and is new enough."""
        try:
            found = re.search(r"version (\S+)", ask_version(program, "--version"))
        except StepError as error:
            return f"{program}: {error.why}"
        version, needed = parse_version(found[1]) if found else None, parse_version(self._minimum)
        if version is None or needed is None or version < needed:
            return f"{program} is {found[1] if found else 'of no version'}, needed is {self._minimum} or newer"
        return None
